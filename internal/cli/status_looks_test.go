package cli_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/berth-project/berth/internal/agent/throttled"
	"github.com/berth-project/berth/internal/agent/view"
	"github.com/berth-project/berth/internal/agent/window"
	"github.com/berth-project/berth/internal/cli"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/linux/hostfs"
)

// watched is an agent that reads the services of a host for each view.
type watched struct {
	t      *testing.T
	host   *cgroup.Host
	others throttled.Others
	now    time.Duration
}

// ServeHTTP implements http.Handler.
func (a *watched) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	throttling, err := a.others.Look(a.now, a.host, nil, nil)
	if err != nil {
		a.t.Error(err)
	}
	if err := json.NewEncoder(w).Encode(view.Of(view.Facts{Version: "test", Throttling: throttling})); err != nil {
		a.t.Error(err)
	}
}

// TestStatusListsThrottledServicesOnTheSecondLook: an agent compares two readings, at least 10 s and at most a minute
// apart, and reads only when it is asked. So a first status lists nothing, and neither does one long after the last.
func TestStatusListsThrottledServicesOnTheSecondLook(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("proc/sys/kernel/random/boot_id", "boot")
	write("proc/self/mountinfo", "31 23 0:28 / /sys/fs/cgroup rw,relatime - cgroup2 cgroup2 rw")
	write("sys/fs/cgroup/cgroup.controllers", "cpu")
	write("sys/fs/cgroup/system.slice/cgroup.controllers", "cpu")
	const group = "sys/fs/cgroup/system.slice/busy.service/"
	write(group+"cgroup.controllers", "cpu")
	write(group+"cpu.max", "50000 100000")
	config := agentFile(t, dir, "127.0.0.1:0")
	root, err := hostfs.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	a := &watched{t: t}
	if a.host, err = cgroup.Open(root); err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET "+window.ViewPath, a)
	agentIn(t, dir, mux)
	for _, look := range []struct {
		at    int
		lists bool
	}{{0, false}, {9, false}, {10, true}, {70, true}, {131, false}, {141, true}} {
		a.now = time.Duration(look.at) * time.Second
		write(group+"cpu.stat", fmt.Sprintf("usage_usec %d\nnr_periods %d\nnr_throttled %d\nthrottled_usec 0", 200_000*look.at, 10*look.at, 4*look.at))
		var out, complaint bytes.Buffer
		if code := cli.Run(t.Context(), []string{"status", "--root", dir, "--config", config}, cli.Streams{Out: &out, Err: &complaint}, "test"); code != 0 {
			t.Fatalf("exit code %d: %s", code, complaint.String())
		}
		if got := out.String(); strings.Contains(got, "system.slice/busy.service") != look.lists || !strings.Contains(got, "version test") {
			t.Errorf("after %d s it is listed: %t\n%s", look.at, !look.lists, got)
		}
	}
}
