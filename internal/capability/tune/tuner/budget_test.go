package tuner_test

import (
	"maps"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/internal/capability/tune"
	"github.com/berth-project/berth/internal/capability/tune/profile"
	"github.com/berth-project/berth/internal/capability/tune/tuner"
	"github.com/berth-project/berth/internal/engine/apply"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/linux/knob"
)

// budgetOrder returns the order of a profile with one unit, in this group of the CPU controller's hierarchy. The unit
// has a budget and a policy.
func budgetOrder(h *host, cpu, group, policy string) tuner.Order {
	h.t.Helper()
	tree := knob.Open(h.root.FS())
	facts := tune.Host{Facts: knob.Facts{CPU: cpu, Units: map[string]bool{"db.service": true}, CPUGroups: map[string]string{"db.service": group}}, Files: map[string]string{}}
	for _, file := range tune.Files("db.service", facts.Facts) {
		maps.Copy(facts.Files, tree.Texts(file))
	}
	b := profile.Bound{Name: "test", Units: []profile.Unit{{Name: "db.service", Policy: policy, RTBudget: 20000}}}
	o := tuner.Order{Confirm: confirm, Settings: tune.Make(b, facts, nil).Settings}
	o.Profile.Name = "test"
	for _, s := range o.Settings {
		if s.Support != knob.Settable {
			h.t.Errorf("%s: %s, %s", s.Name(), s.Support, s.Why)
		}
	}
	return o
}

// TestBudget: a budget for real-time threads is written from the top down, verified, and restored from the bottom up. A
// value that another program wrote there in the meantime stays.
func TestBudget(t *testing.T) {
	const cpu, top, service, other = "/sys/fs/cgroup/cpu,cpuacct", "/system.slice", "/system.slice/db.service", "/system.slice/other"
	h := newHost(t)
	h.write("/proc/self/mountinfo", "25 24 0:21 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct\n")
	for group, runtime := range map[string]string{"": "950000", top: "5000", service: "0", other: "3000"} {
		h.write(cpu+group+"/cpu.rt_runtime_us", runtime+"\n")
		h.write(cpu+group+"/cpu.rt_period_us", "1000000\n")
		h.write(cpu+group+"/tasks", "")
	}
	var err error
	h.groups, err = cgroup.Open(h.root)
	must(t, err)
	before := h.files()
	o := budgetOrder(h, cpu, cpu+service, "")
	h.do(func(u *tuner.Tuner) {
		r, err := u.Apply(o)
		if err != nil || r.Writes != 2 {
			t.Fatalf("%+v, %v", r, err)
		}
		must(t, u.Commit())
	})
	files := h.files()
	if files[cpu+top+"/cpu.rt_runtime_us"] != "23000" || files[cpu+service+"/cpu.rt_runtime_us"] != "20000" || files[cpu+"/cpu.rt_runtime_us"] != "950000\n" {
		t.Errorf("%v", files)
	}
	a, _, err := tuner.Load(h.state)
	must(t, err)
	for _, row := range a.Verify(h.root.FS(), tuner.Kernel{}, nil) {
		if row.State != tune.OK {
			t.Error(row)
		}
	}
	h.do(func(u *tuner.Tuner) { u.Rollback() })
	for _, group := range []string{top, service} { // the kernel ends the line
		h.write(cpu+group+"/cpu.rt_runtime_us", h.files()[cpu+group+"/cpu.rt_runtime_us"]+"\n")
	}
	if d := cmp.Diff(before, h.files()); d != "" {
		t.Error(d)
	}
	h.do(func(u *tuner.Tuner) { _, err := u.Apply(o); must(t, err) })
	h.write(cpu+service+"/cpu.rt_runtime_us", "7\n")
	h.do(func(u *tuner.Tuner) {
		for at, outcome := range outcomes(u.Rollback()) {
			if want := map[bool]apply.Outcome{true: apply.OutcomeDrifted, false: apply.OutcomeRestored}[filepath.Dir(at) == service[1:]]; outcome != want {
				t.Errorf("%s: %s, want %s", at, outcome, want)
			}
		}
	})
}
