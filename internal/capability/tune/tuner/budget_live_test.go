package tuner_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/berth-project/berth/internal/capability/tune"
	"github.com/berth-project/berth/internal/capability/tune/tuner"
	"github.com/berth-project/berth/internal/engine/apply"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/linux/kernel"
)

// TestBudgetOfKernel applies a budget where the running kernel has group budgets. Threads become real-time only with
// the budget, also after a restart of the unit. The rollback restores both. The kernels of the virtual machines have no
// group budgets; there the kernel refuses.
func TestBudgetOfKernel(t *testing.T) {
	u := newUnit(t)
	file := func(g *cgroup.Group) (string, string) {
		dir, err := g.Dir(cgroup.CPU)
		must(t, err)
		text, err := os.ReadFile(filepath.Join(dir.Path(), "cpu.rt_runtime_us"))
		if errors.Is(err, fs.ErrNotExist) {
			if _, err := g.Read(cgroup.KnobRTRuntime); !errors.Is(err, cgroup.ErrNoKnob) {
				t.Errorf("no cpu.rt_runtime_us: %v", err)
			}
			return dir.Path(), ""
		}
		must(t, err)
		return dir.Path(), string(text)
	}
	sub, err := u.group.Sub("db.service")
	must(t, err)
	t.Cleanup(func() { must(t, sub.Close()) })
	above, had := file(u.group.Handle())
	if had == "" {
		return
	}
	cmd := process(t)
	must(t, sub.Attach(cmd.Process.Pid))
	hierarchy, err := u.groups.Hierarchy(cgroup.CPU)
	must(t, err)
	class := func() kernel.Class {
		now, err := kernel.ThreadScheduled(cmd.Process.Pid)
		must(t, err)
		return now.Class
	}
	without := tuner.Order{Confirm: confirm, Settings: budgetOrder(u.host, hierarchy.Mount, above+"/db.service", "fifo:1").Settings[2:]}
	u.do(func(h *tuner.Tuner) {
		if _, err := h.Apply(without); err == nil || class() != kernel.Other {
			t.Errorf("without a budget: %v, %v", err, class())
		}
	})
	o := budgetOrder(u.host, hierarchy.Mount, above+"/db.service", "fifo:1")
	u.do(func(h *tuner.Tuner) {
		if r, err := h.Apply(o); err != nil || r.Writes != 3 || class() != kernel.FIFO {
			t.Errorf("%+v, %v, %v", r, err, class())
		}
	})
	a, _, err := tuner.Load(u.state)
	must(t, err)
	for _, row := range a.Verify(u.root.FS(), u.kernel, nil) {
		if row.State != tune.OK {
			t.Error(row)
		}
	}
	u.do(func(h *tuner.Tuner) { must(t, h.Commit()) })
	_ = cmd.Process.Kill()
	_ = cmd.Wait() // it was killed
	must(t, sub.Close())
	sub, err = u.group.Sub("db.service") // the unit is restarted
	must(t, err)
	cmd = process(t)
	must(t, sub.Attach(cmd.Process.Pid))
	if again := budgetOrder(u.host, hierarchy.Mount, above+"/db.service", "fifo:1"); again.Settings[0].Want != o.Settings[0].Want {
		t.Errorf("the group above needs %s, needed %s", again.Settings[0].Want, o.Settings[0].Want)
	}
	u.do(func(h *tuner.Tuner) {
		if again, err := h.Repeat(); err != nil || len(again.Restarted) != 2 || class() != kernel.FIFO {
			t.Errorf("set again %+v, %v, %v", again, err, class())
		}
	})
	u.do(func(h *tuner.Tuner) {
		for at, outcome := range outcomes(h.Rollback()) {
			if outcome != apply.OutcomeRestored {
				t.Errorf("%s: %s", at, outcome)
			}
		}
	})
	_, now := file(u.group.Handle())
	if _, below := file(sub.Handle()); class() != kernel.Other || now != had || below != had {
		t.Errorf("rolled back: %v, %q, %q", class(), now, below)
	}
}
