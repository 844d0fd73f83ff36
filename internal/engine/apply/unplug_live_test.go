package apply_test

import (
	"context"
	"fmt"
	"os"
	"path"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/internal/proof/scratch"
	"github.com/berth-project/berth/internal/value/cpuset"
	"github.com/berth-project/berth/test/kernel/job"
	until "github.com/berth-project/berth/test/patience"
)

// A CPU goes offline between every two steps of the moves of isolate, and comes back. On cgroup v1 the kernel removes
// it from all lists, also from that of the group above, which gets it back here from its administrator. A group that
// Berth had not changed by then may lack the CPU for good, as without Berth.
func TestLiveUnplugBetweenIsolateSteps(t *testing.T) {
	l := newLive(t)
	guest, err := job.Guest()
	must(t, err)
	if !guest {
		t.Skip("takes CPUs away from everybody; runs in the VM: make verify-kernels")
	}
	top := l.top.Handle()
	all, err := top.EffectiveCPUs()
	must(t, err)
	before, v1 := l.lists(), l.cpusetVersion() == 1
	m := &machine{t: t, host: l.host, top: l.top.Path(), cores: coresOf(t, l.host, l.top.Path()), follow: func() {}}
	if len(m.cores) < 3 || m.cores[len(m.cores)-1].Size() < 2 {
		t.Fatalf("cores %v: want three or more, of two threads", m.cores)
	}
	m.online = func() cpuset.Set {
		cpus, err := top.EffectiveCPUs()
		must(t, err)
		return cpus
	}
	m.plug = func(cpu int, on bool) {
		state := map[bool]string{false: "0", true: "1"}[on]
		file := fmt.Sprintf("/sys/devices/system/cpu/cpu%d/online", cpu)
		must(t, os.WriteFile(file, []byte(state), 0))
		if !on {
			t.Cleanup(func() { _ = os.WriteFile(file, []byte("1"), 0) })
		}
		must(t, until.Until(context.WithoutCancel(t.Context()), time.Millisecond, func() string {
			if on && v1 {
				if err := l.top.SetCPUs(all); err != nil {
					return err.Error()
				}
			}
			if cpus := m.online(); cpus.Contains(cpu) != on {
				return fmt.Sprintf("CPU %d is %s, and the groups have %s", cpu, state, cpus)
			}
			return ""
		}))
	}
	m.originals = func(when string, cpu int, late []string) {
		for _, g := range []*scratch.Group{l.a, l.b} {
			if has := m.effective(path.Base(g.Path())); v1 && has == all.Remove(cpu) && slices.Contains(late, g.Path()) {
				must(t, g.SetCPUs(all))
			}
		}
		if d := cmp.Diff(before, l.lists()); d != "" {
			t.Fatalf("%s (-before +after rollback):\n%s", when, d)
		}
	}
	m.unplugs(25)
}
