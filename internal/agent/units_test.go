package agent

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-project/berth/internal/capability/place"
	"github.com/berth-project/berth/internal/engine/driver/cgroupfile"
	"github.com/berth-project/berth/internal/engine/driver/systemd"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// slowUnits is a slow systemd that notes whether the agent's mutex was free.
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

// hasSystemd gives the machine a systemd that the agent asks between two passes.
func (m *machine) hasSystemd(units cgroupfile.Units) {
	c := m.controls
	later := systemd.NewLater(units)
	c.reconciler = newReconciler(c, writing{applier: newApplier(c.opts, c.host, c.journal, later, nil), systemd: true})
	c.beside.asking = systemd.NewAsking(c.reconciler, later, &c.mu, c.opts.Clock)
}

// While systemd is slow, the loop continues and the mutex is free. An agent that ends waits for systemd: a late request
// must not overwrite a restored value.
func TestSystemdHoldsNobodyUp(t *testing.T) {
	in(t, func(t *testing.T, m *machine) {
		m.boot()
		m.end()
		m.joins() // pods are unknown, so that desired values stay
		c := m.controls
		slow := &slowUnits{c: c, takes: 2500 * time.Millisecond}
		m.hasSystemd(slow)
		m.addGroup("a.scope", "max 100000")
		m.write("sys/fs/cgroup/a.scope/cpuset.cpus", "\n")
		c.reconciler.Want(place.Desired{Group: "a.scope", CPUs: cpuset.Set{}.Add(0)}.Settings())
		c.reconciler.Pass(c.opts.Clock())
		ctx, cancel := context.WithCancel(t.Context())
		began, done := time.Now(), make(chan error, 1)
		go func() { done <- c.run(ctx) }()
		for range 2 {
			time.Sleep(time.Second)
			synctest.Wait()
			if late := c.opts.Clock() - time.Duration(c.windows.lastPass.Load()); late > time.Second {
				t.Errorf("no pass for %s", late)
			}
		}
		cancel()
		if err := <-done; err != nil || time.Since(began) != slow.takes {
			t.Errorf("the end: %v, after %s", err, time.Since(began))
		}
		if slow.calls != 1 || slow.free != 1 {
			t.Errorf("%d questions, the mutex was free in %d", slow.calls, slow.free)
		}
		m.closeJournal()
	})
}
