package agent

import (
	"testing"
	"time"

	"github.com/berth-project/berth/internal/cgroup"
	"github.com/berth-project/berth/internal/cpuset"
	"github.com/berth-project/berth/internal/driver/cgroupfile"
	"github.com/berth-project/berth/internal/place"
	"github.com/berth-project/berth/internal/plan"
	"github.com/berth-project/berth/internal/reconcile"
)

// slowUnits is a systemd that takes its time, and notes whether the mutex was free.
type slowUnits struct {
	c           *controller
	takes       time.Duration
	free, calls int
}

func (u *slowUnits) SetList(string, cgroup.Knob, cgroup.Value) error {
	u.calls++
	if u.c.mu.TryLock() {
		u.c.mu.Unlock()
		u.free++
	}
	time.Sleep(u.takes)
	return nil
}

// hasSystemd gives the machine a systemd that is asked between two passes.
func (m *machine) hasSystemd(units cgroupfile.Units) {
	c := m.controls
	later := reconcile.NewLater(units)
	c.reconcileBy(newApplier(c.opts, c.host, c.journal, later, nil), true)
	c.askSystemd(later)
}

// The runtime is answered while systemd takes its time, and the loop turns in between.
func TestSystemdHoldsNobodyUp(t *testing.T) {
	in(t, func(t *testing.T, m *machine) {
		m.boot()
		m.end()
		m.joins() // nothing is known of pods: what is desired stays
		c := m.controls
		slow := &slowUnits{c: c, takes: 60 * time.Millisecond}
		m.hasSystemd(slow)
		var desired []plan.Desired
		for _, unit := range []string{"a.scope", "b.scope", "c.scope"} {
			m.addGroup(unit, "max 100000")
			m.write("sys/fs/cgroup/"+unit+"/cpuset.cpus", "\n")
			desired = append(desired, place.Desired{Group: unit, CPUs: cpuset.Set{}.Add(0)}.Settings()...)
		}
		c.reconciler.Want(desired)
		c.reconciler.Pass(c.opts.Clock())
		if next := c.pass(); next != 0 || c.nextSecond != 0 {
			t.Errorf("the next pass is in %s", next)
		}
		if slow.calls != 2 || slow.free != slow.calls {
			t.Errorf("%d questions, the mutex was free in %d", slow.calls, slow.free)
		}
		if next := c.pass(); next == 0 {
			t.Error("nothing more to ask, and no rest")
		}
	})
}
