package offline

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/berth-project/berth/internal/capability"
	"github.com/berth-project/berth/internal/cgroup"
	"github.com/berth-project/berth/internal/cpuset"
	"github.com/berth-project/berth/internal/hostfs"
	"github.com/berth-project/berth/internal/isolate"
)

// host is one of plain files, of 8 CPUs and cgroup v2.
type host struct {
	t         *testing.T
	dir       string
	used, all time.Duration // CPU time of offline work, and of everything
	ceiling   ceiling
}

func newHost(t *testing.T, groups ...string) *host {
	t.Helper()
	h := &host{t: t, dir: t.TempDir()}
	h.write("proc/self/mountinfo", "31 23 0:28 / /sys/fs/cgroup rw,relatime - cgroup2 cgroup2 rw\n")
	h.write("sys/fs/cgroup/cgroup.controllers", "cpuset cpu\n")
	for _, g := range groups {
		h.write("sys/fs/cgroup/"+g+"/cgroup.controllers", "cpuset cpu\n")
	}
	root, err := hostfs.Open(h.dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	opened, err := cgroup.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	h.ceiling = ceiling{host: opened, root: root}
	return h
}

func (h *host) write(name, content string) {
	h.t.Helper()
	name = filepath.Join(h.dir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(content), 0o600)); err != nil {
		h.t.Fatal(err)
	}
}

// run lets online and offline work use CPUs for a second.
func (h *host) run(online, offline float64) {
	h.used += time.Duration(offline * float64(time.Second))
	h.all += time.Duration((online + offline) * float64(time.Second))
	h.write("sys/fs/cgroup/kubepods/besteffort/cpu.stat", fmt.Sprintf("usage_usec %d\nuser_usec 0\nsystem_usec 0\n", h.used.Microseconds()))
	stat := fmt.Sprintf("cpu  %d 0 0 0 0 0 0 0 0 0\n", h.all.Milliseconds()/10)
	for cpu := range 8 {
		stat += fmt.Sprintf("cpu%d %d 0 0 0 0 0 0 0 0 0\n", cpu, h.all.Milliseconds()/80)
	}
	h.write("proc/stat", stat)
}

// Offline work has a quota that follows what online work leaves, whatever offline work uses
// itself, on the one group that has all of it.
func TestCeiling(t *testing.T) {
	h := newHost(t, "kubepods/besteffort/poda", "kubepods/besteffort/podb")
	node := isolate.Node{Policy: isolate.DefaultPolicy()}
	for i := range 8 {
		node.Movable = append(node.Movable, isolate.Core{CPUs: cpuset.Set{}.Add(i)})
	}
	both := []capability.Container{one("a", "BE", ""), one("b", "BE", ""), one("web", "LS", "")}
	now := time.Hour
	quota := func(seconds int, online, offline float64) string {
		t.Helper()
		value := ""
		for range seconds {
			h.run(online, offline)
			desired, err := h.ceiling.decide(now, node, both)
			if err != nil || len(desired) != 1 || desired[0].Object != "kubepods/besteffort" || desired[0].Owner != "isolate" {
				t.Fatalf("%+v, %v", desired, err)
			}
			value, now = string(desired[0].Value), now+time.Second
		}
		return value
	}
	if got := quota(1, 1, 0); got != "100000 100000" {
		t.Errorf("at the start %s", got)
	}
	if got := quota(60, 1, 4); got != "400000 100000" {
		t.Errorf("online work uses one CPU: %s", got)
	}
	if got := quota(3, 5, 3); got != "100000 100000" {
		t.Errorf("online work uses five: %s", got)
	}
	// Online work beside the offline pods would be bounded, too.
	for _, some := range [][]capability.Container{both[:1], {both[0], one("web", "LS", "")}} {
		if desired, err := h.ceiling.decide(now, node, some); len(desired) > 0 || !errors.Is(err, isolate.ErrNoQuotaGroup) {
			t.Errorf("%+v, %v", desired, err)
		}
	}
	if desired, err := h.ceiling.decide(now, node, both[2:]); len(desired) > 0 || err != nil {
		t.Errorf("without offline work: %+v, %v", desired, err)
	}
	node.Movable = node.Movable[:1]
	if desired, err := h.ceiling.decide(now, node, both); len(desired) > 0 || !errors.Is(err, isolate.ErrNoQuotaGroup) {
		t.Errorf("with one core: %+v, %v", desired, err)
	}
}
