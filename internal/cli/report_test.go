package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/internal/engine/driver"
	"github.com/berth-project/berth/internal/engine/journal"
)

// reportBoot is the boot ID of the recorded checkpoint.
const reportBoot = "11111111-2222-3333-4444-555555555555"

// host is a recorded host with the state of an agent.
type host struct {
	t   *testing.T
	dir string
}

// newHost returns a cgroup v2 host with one group, and a state directory with a recorded checkpoint. Its agent knew no
// capabilities.
func newHost(t *testing.T) host {
	t.Helper()
	h := host{t, t.TempDir()}
	h.write("proc/sys/kernel/random/boot_id", reportBoot+"\n")
	h.write("proc/self/mountinfo", "31 23 0:28 / /sys/fs/cgroup rw,relatime - cgroup2 cgroup2 rw\n")
	h.write("sys/fs/cgroup/cgroup.controllers", "cpuset cpu\n")
	h.write("agent.yaml", "workloadDir: workloads\nstateDir: state\n")
	checkpoint, err := os.ReadFile("testdata/report/checkpoint.json")
	if err != nil {
		t.Fatal(err)
	}
	h.write("state/checkpoint.json", string(checkpoint))
	return h
}

func (h host) write(name, content string) {
	h.t.Helper()
	path := filepath.Join(h.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		h.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		h.t.Fatal(err)
	}
}

// live opens the journal and holds it as a running agent does.
func (h host) live() *journal.Journal {
	h.t.Helper()
	j, err := journal.Open(filepath.Join(h.dir, "state"), reportBoot, driver.Values())
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { _ = j.Close() })
	return j
}

// run runs a command on the host and returns its output.
func (h host) run(args ...string) string {
	h.t.Helper()
	var out, problems bytes.Buffer
	args = append(args, "--root", h.dir, "--config", filepath.Join(h.dir, "agent.yaml"))
	if code := Run(h.t.Context(), args, Streams{Out: &out, Err: &problems}, "test"); code != 0 {
		h.t.Fatalf("exit code %d: %s", code, problems.String())
	}
	// This test holds the journal, so its pid is replaced.
	return regexp.MustCompile(`(pid"?:? )\d+`).ReplaceAllString(out.String(), "${1}4711")
}

// TestReportsStayAsTheyAre compares the reports of a recorded checkpoint with golden files. They come from the time
// when the commands knew burst and place by name.
func TestReportsStayAsTheyAre(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"status.txt":       {"status"},
		"status.json":      {"status", "-o", "json"},
		"status.yaml":      {"status", "-o", "yaml"},
		"explain_app.txt":  {"explain", "app"},
		"explain_app.json": {"explain", "app", "-o", "json"},
		"explain_left.txt": {"explain", "left"},
		"explain_off.txt":  {"explain", "off"},
		"explain_wait.txt": {"explain", "wait"},
		"stopped.txt":      {"status"},
		"stopped.json":     {"status", "-o", "json"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t)
			if !strings.HasPrefix(name, "stopped") {
				h.live()
			}
			got := strings.ReplaceAll(h.run(args...), h.dir, "/etc/berth")
			want, err := os.ReadFile("testdata/report/" + name)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("%v (-want +got):\n%s", args, diff)
			}
		})
	}
}
