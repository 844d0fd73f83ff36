package tuner_test

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/internal/capability/tune"
	"github.com/berth-project/berth/internal/capability/tune/profile"
	"github.com/berth-project/berth/internal/capability/tune/tuner"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/linux/knob"
)

// stops returns the order as it is while the units of its settings do not run: a plan then has no file for them.
func stops(o tuner.Order) tuner.Order {
	all := o.Settings
	o.Settings = nil
	for _, s := range all {
		if !s.OfGroup() {
			o.Settings = append(o.Settings, s)
			continue
		}
		s.File, s.Support, s.Stopped = "", knob.Unknown, true
		o.Waiting = append(o.Waiting, s)
	}
	return o
}

// states returns the state of each setting of a unit.
func (h *host) states() map[string]tune.State {
	h.t.Helper()
	a, _, err := tuner.Load(h.state)
	must(h.t, err)
	by := map[string]tune.State{}
	for _, row := range a.Verify(h.root.FS(), h.kernel, nil) {
		if strings.HasPrefix(row.Knob, "unit.") || strings.HasPrefix(row.Knob, "cpus.") {
			by[strings.TrimSpace(row.Knob+" "+row.Instance)] = row.State
		}
	}
	return by
}

// hasLists checks that a command which opens the state leaves the lists of the unit with systemd, and says nothing.
func (r *registry) hasLists(u *tuner.Tuner) {
	r.t.Helper()
	if r.lists[cgroup.KnobCPUs] != "1" || r.lists[cgroup.KnobMems] != "1" || len(u.Notes()) > 0 {
		r.t.Errorf("systemd has %v: %q", r.lists, u.Notes())
	}
}

// TestStoppedUnitAfterABoot: a unit of the committed profile does not run after a boot. An apply sets everything else,
// and the lists of the unit stay on record: verify names them, the next boot gives them to the unit before it starts,
// and an apply sets them once the unit runs. A rollback at any time restores all, also if the apply was killed at any
// step.
func TestStoppedUnitAfterABoot(t *testing.T) {
	const cpus, mems = tune.UnitCPUs + " db.service", tune.UnitMems + " db.service"
	waits := map[string]tune.State{cpus: tune.Dormant, mems: tune.Dormant}
	whole := map[string]tune.State{cpus: tune.OK, mems: tune.OK}
	for name, tt := range map[string]struct {
		ahead bool
		then  func(*registry, tuner.Order, map[string]string)
	}{
		"rolled back at once": {false, func(*registry, tuner.Order, map[string]string) {}},
		"with lists before": {true, func(r *registry, _ tuner.Order, _ map[string]string) {
			r.do(func(u *tuner.Tuner) { r.hasLists(u) }) // any other command
			r.start()
			if r.given[0] != "1/1" {
				r.t.Errorf("it started with %q", r.given)
			}
		}},
		"started with lists": {true, func(r *registry, _ tuner.Order, _ map[string]string) {
			r.start()
			r.write(service+"/cgroup.events", "populated 1")
			if d := cmp.Diff(whole, r.states()); d != "" {
				r.t.Error(d)
			}
			r.do(func(u *tuner.Tuner) {
				if again, err := u.Repeat(); err != nil || !again.IsEmpty() {
					r.t.Errorf("%+v, %v", again, err)
				}
				if a, _ := u.Applied(); len(a.Settings) != 3 || len(a.Waiting) > 0 {
					r.t.Errorf("%+v", a)
				}
			})
			r.do(func(u *tuner.Tuner) { r.hasLists(u) })
			if d := cmp.Diff(whole, r.states()); d != "" {
				r.t.Error(d)
			}
		}},
		"started with lists, and no agent": {true, func(r *registry, _ tuner.Order, _ map[string]string) {
			r.start()
			r.write(service+"/cgroup.events", "populated 1")
			r.do(func(u *tuner.Tuner) { r.hasLists(u); must(r.t, u.Commit()) })
			if d := cmp.Diff(whole, r.states()); d != "" {
				r.t.Error(d)
			}
		}},
		"started without": {false, func(r *registry, o tuner.Order, _ map[string]string) {
			r.start()
			for name, s := range r.states() { // an empty list
				if s != tune.Unreadable {
					r.t.Errorf("%s is %s", name, s)
				}
			}
			r.do(func(u *tuner.Tuner) {
				if again, err := u.Repeat(); err != nil || !again.IsEmpty() { // systemd sets lists only for an apply
					r.t.Errorf("%+v, %v", again, err)
				}
			})
			r.do(func(u *tuner.Tuner) {
				if done, err := u.Apply(o); err != nil || done.Writes != 2 {
					r.t.Errorf("%+v, %v", done, err)
				}
			})
			if d := cmp.Diff(whole, r.states()); d != "" {
				r.t.Error(d)
			}
		}},
		"started without the controller": {false, func(r *registry, o tuner.Order, _ map[string]string) {
			r.write(service+"/cgroup.controllers", "")
			r.write(service+"/cgroup.procs", "")
			r.write(service+"/cgroup.events", "populated 1")
			absent := map[string]tune.State{cpus: tune.Gone, mems: tune.Gone}
			if d := cmp.Diff(absent, r.states()); d != "" {
				r.t.Error(d)
			}
			r.do(func(u *tuner.Tuner) {
				if again, err := u.Repeat(); err != nil || !again.IsEmpty() { // systemd sets lists only for an apply
					r.t.Errorf("%+v, %v", again, err)
				}
				if a, _ := u.Applied(); len(a.Settings) != 3 || len(a.Waiting) > 0 {
					r.t.Errorf("%+v", a)
				}
			})
			if d := cmp.Diff(absent, r.states()); d != "" {
				r.t.Error(d)
			}
		}},
		"applied again without it, and with it": {false, func(r *registry, o tuner.Order, _ map[string]string) {
			r.do(func(u *tuner.Tuner) { _, err := u.Apply(stops(o)); must(r.t, err) })
			if d := cmp.Diff(waits, r.states()); d != "" {
				r.t.Error(d)
			}
			r.start()
			r.do(func(u *tuner.Tuner) { _, err := u.Apply(o); must(r.t, err) })
			must(r.t, os.RemoveAll(r.plain.Path(service)))
			r.do(func(u *tuner.Tuner) { _, err := u.Apply(stops(o)); must(r.t, err) })
			if a, _, err := tuner.Load(r.state); err != nil || len(a.Settings) != 3 || len(a.Waiting) > 0 {
				r.t.Errorf("%+v, %v", a, err)
			}
		}},
		"the next boot": {false, func(r *registry, o tuner.Order, kernel map[string]string) {
			r.reboot("two", kernel)
			r.do(func(u *tuner.Tuner) {
				if given, err := u.Ahead(); err != nil || len(given) != 2 {
					r.t.Errorf("%v, %v", given, err)
				}
			})
			r.start()
			if r.given[0] != "1/1" {
				r.t.Errorf("it started with %q", r.given)
			}
			r.do(func(u *tuner.Tuner) {
				if done, err := u.Apply(o); err != nil || done.Writes != 1 {
					r.t.Errorf("%+v, %v", done, err)
				}
			})
			if d := cmp.Diff(whole, r.states()); d != "" {
				r.t.Error(d)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			for fatal := 1; ; fatal++ {
				r, o, kernel := newRegistry(t)
				if tt.ahead {
					r.do(func(u *tuner.Tuner) { _, err := u.Ahead(); must(t, err) })
					r.write(service+"/cgroup.events", "populated 0") // the lists made the group
				}
				dies := r.command(fatal, func(u *tuner.Tuner) {
					if _, err := u.Apply(stops(o)); err != nil {
						t.Error(err)
					}
				})
				r.named()
				if dies {
					before := maps.Clone(r.lists)
					r.do(func(*tuner.Tuner) {}) // undoes
					a, is, err := tuner.Load(r.state)
					if done := is && a.Stands(r.boot); err != nil || !is || !done && len(a.Settings) != 3 || !done && r.files()[autogroup] != kernel[autogroup] {
						t.Errorf("killed at step %d: %t, %+v, %v; systemd had %v", fatal, is, a, err, before)
					}
				} else {
					if d := cmp.Diff(waits, r.states()); d != "" {
						t.Error(d)
					}
					if a, _, _ := tuner.Load(r.state); a.Phase != tuner.Committed || len(a.Waiting) != 2 || r.files()[autogroup] != "0" {
						t.Errorf("%+v", a)
					}
					tt.then(r, o, kernel)
					r.named()
				}
				r.restored(fmt.Sprintf("killed at step %d", fatal), kernel)
				if !dies {
					if fatal < 6 {
						t.Errorf("it has only %d steps", fatal)
					}
					return
				}
			}
		})
	}
}

// TestPartitionsOfAStoppedUnit: a unit with a partition does not run. Another unit, if the profile has one, is a
// partition, and the group above both has the exclusive CPUs of both, as far as the host still has them. Once the unit
// runs, Repeat makes it a partition, too, and the record is that of a whole apply: the same profile by hand writes
// nothing. The group keeps the exclusive CPUs that another program gave it in this boot.
func TestPartitionsOfAStoppedUnit(t *testing.T) {
	const above = "/sys/fs/cgroup/system.slice"
	for name, tt := range map[string]struct {
		units           string // with CPU 1 and 2
		others, exist   string // exclusive CPUs of another program, and the CPUs of the host
		stopped, runs   string // exclusive CPUs of the group
		started         int
		before, earlier string // what the boot and the plan give the group
	}{
		"beside a unit":               {"a b", "", "0-3", "1-2", "1-2", 3, "1-2", "1"},
		"beside another program":      {"a b", "3", "0-3", "1-3", "1-3", 3, "1-2", "1,3"},
		"alone":                       {"b", "", "0-3", "", "2", 4, "2", ""},
		"alone, with another program": {"b", "3", "0-3", "3", "2-3", 4, "2", ""},
		"with fewer CPUs":             {"a b", "", "0-1", "1", "", 0, "1-2", "1"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			h.write("/proc/self/mountinfo", "25 24 0:21 / /sys/fs/cgroup rw,relatime - cgroup2 cgroup rw\n")
			h.write("/sys/devices/system/cpu/possible", "0-3\n")
			created := func(at string) {
				for file, text := range map[string]string{
					"cgroup.controllers": "cpuset", "cgroup.procs": "", "cpuset.cpus": "", "cpuset.cpus.exclusive": "", "cpuset.cpus.partition": "member",
					"cpuset.cpus.effective": "0-3", "cpuset.mems.effective": "0-3",
				} {
					h.write(at+"/"+file, text+"\n")
				}
			}
			var o tuner.Order
			o.Profile.Name, o.Again = "test", true
			add := func(name, unit, file, want string, phase knob.Phase) {
				o.Settings = append(o.Settings, tune.Setting{Knob: name, Instance: unit, File: file, Want: want, Write: want, Support: knob.Settable, Phase: phase})
			}
			units := map[string]string{"a.service": "1", "b.service": "2"}
			if tt.units == "b" {
				delete(units, "a.service")
			}
			created("/sys/fs/cgroup")
			created(above)
			add(tune.Exclusive, "system.slice", above+"/cpuset.cpus.exclusive", tt.before, knob.Exclusives)
			for unit, cpu := range units {
				created(above + "/" + unit)
				add(tune.UnitCPUs, unit, above+"/"+unit+"/cpuset.cpus", cpu, knob.Exclusives)
				add(tune.Exclusive, unit, above+"/"+unit+"/cpuset.cpus.exclusive", cpu, knob.Exclusives)
				add(tune.Partition, unit, above+"/"+unit+"/cpuset.cpus.partition", "isolated", knob.Partitions)
			}
			slices.SortStableFunc(o.Settings, func(a, b tune.Setting) int { return int(a.Phase - b.Phase) })
			h.makes = func(string) { // the kernel gives a group the CPUs of its list
				for unit, cpu := range units {
					at := above + "/" + unit
					if text, err := os.ReadFile(h.plain.Path(at + "/cpuset.cpus")); err == nil && strings.TrimSpace(string(text)) != "" {
						h.write(at+"/cpuset.cpus.effective", cpu)
					}
				}
			}
			var err error
			h.groups, err = cgroup.Open(h.root)
			must(t, err)
			command := func(f func(*tuner.Tuner)) { t.Helper(); h.command(0, f) }
			command(func(u *tuner.Tuner) { _, err := u.Apply(o); must(t, err) })
			whole := h.states()

			h.boot = "the next boot"
			h.write("/sys/devices/system/cpu/possible", tt.exist+"\n")
			must(t, os.RemoveAll(h.plain.Path(above)))
			created(above)
			h.write(above+"/cpuset.cpus.exclusive", tt.others+"\n")
			stopped := o
			stopped.Settings = nil
			for i, s := range o.Settings {
				switch {
				case s.Instance == "b.service" && s.Knob != tune.Exclusive:
					s.File, s.Stopped = "", true
					stopped.Waiting = append(stopped.Waiting, s)
				case s.Instance == "system.slice":
					o.Settings[i].Want, o.Settings[i].Write = tt.runs, tt.runs
					if s.Want, s.Write = tt.earlier, tt.earlier; tt.earlier != "" { // the plan knows no group of the stopped unit
						stopped.Settings = append(stopped.Settings, s)
					}
				case s.Instance == "a.service":
					created(above + "/a.service")
					stopped.Settings = append(stopped.Settings, s)
				}
			}
			has := func(when, exclusive, a, b string) {
				t.Helper()
				read := func(file string) string {
					text, _ := os.ReadFile(h.plain.Path(above + file))
					return strings.TrimSpace(string(text))
				}
				if units["a.service"] == "" {
					a = ""
				}
				if e, x, y := read("/cpuset.cpus.exclusive"), read("/a.service/cpuset.cpus.partition"), read("/b.service/cpuset.cpus.partition"); e != exclusive || x != a || y != b {
					t.Errorf("%s: %q, %q, %q, want %q, %q, %q", when, e, x, y, exclusive, a, b)
				}
			}
			command(func(u *tuner.Tuner) { _, err := u.Apply(stopped); must(t, err) })
			has("without b", tt.stopped, "isolated", "")
			want := maps.Clone(whole)
			for name := range want {
				if strings.HasSuffix(name, "b.service") || tt.earlier == "" {
					want[name] = tune.Dormant
				}
			}
			if d := cmp.Diff(want, h.states()); d != "" {
				t.Error(d)
			}
			if tt.started > 0 {
				created(above + "/b.service")
				command(func(u *tuner.Tuner) {
					if again, err := u.Repeat(); err != nil || len(again.Started) != tt.started || len(again.Restarted) > 0 {
						t.Errorf("%+v, %v", again, err)
					}
				})
				has("with b", tt.runs, "isolated", "isolated")
				if d := cmp.Diff(whole, h.states()); d != "" {
					t.Error(d)
				}
				command(func(u *tuner.Tuner) {
					if done, err := u.Apply(o); err != nil || done.Writes > 0 {
						t.Errorf("%+v, %v", done, err)
					}
				})
			}
			command(func(u *tuner.Tuner) { u.Rollback() })
			if tt.started > 0 {
				has("rolled back", tt.others, "member", "member")
			} else {
				has("rolled back", tt.others, "member", "")
			}
		})
	}
}

// TestWaitingListsOfAnotherPlan: the plan of this boot has another list for a stopped unit than the last apply, and a
// list that the last apply left out. The unit gets the new list ahead of its next start. The other list has no place on
// record: verify does not say that it waits for the unit, whether the unit runs or not.
func TestWaitingListsOfAnotherPlan(t *testing.T) {
	r, o, kernel := newRegistry(t)
	r.do(func(u *tuner.Tuner) { u.Rollback() })
	r.start()
	first := o
	first.Again, first.Settings = false, o.Settings[:2] // without mems
	r.do(func(u *tuner.Tuner) { _, err := u.Apply(first); must(t, err) })
	r.reboot("two", kernel)
	o.Settings = slices.Clone(o.Settings)
	o.Settings[1].Want, o.Settings[1].Write = "2", "2"
	r.do(func(u *tuner.Tuner) { _, err := u.Apply(stops(o)); must(t, err) })
	for _, when := range []string{"stopped", "running"} {
		if when == "running" {
			r.start()
		}
		a, _, err := tuner.Load(r.state)
		must(t, err)
		rows := a.Verify(r.root.FS(), r.kernel, nil)
		if a.Started(rows, r.groups) != (when == "running") {
			t.Errorf("%s: a unit started: %v", when, when != "running")
		}
		var left, all []string
		for _, row := range rows {
			if row.Instance == "db.service" {
				all = append(all, row.Knob+" "+row.Want)
			}
			if row.State == tune.Dormant && !row.Stopped {
				left = append(left, row.Knob+": "+row.Reason)
			}
		}
		if !slices.Equal(all, []string{"unit.cpus 2", "unit.mems 1"}) ||
			!slices.Equal(left, []string{"unit.mems: the last apply left it out: berth tune apply --committed sets it"}) {
			t.Errorf("%s: %q, left out %q", when, all, left)
		}
	}
	r.reboot("three", kernel)
	r.do(func(u *tuner.Tuner) {
		if given, err := u.Ahead(); err != nil || len(given) != 1 || r.lists[cgroup.KnobCPUs] != "2" {
			t.Errorf("%v, %v: systemd has %v", given, err, r.lists)
		}
	})
}

// TestPartitionWithoutItsCPUs: a unit that did not run at the apply starts with its memory nodes, and without its CPUs.
// Repeat makes no partition of it. After a restart that brings the CPUs, it does.
func TestPartitionWithoutItsCPUs(t *testing.T) {
	const file = service + "/cpuset.cpus.partition"
	r, o, _ := newRegistry(t)
	r.do(func(u *tuner.Tuner) { u.Rollback() })
	start := func() {
		r.start()
		r.write(service+"/cpuset.cpus.exclusive", "\n")
		r.write(file, "member\n")
	}
	o.Settings = append(o.Settings, tune.Setting{
		Knob: tune.Partition, Instance: "db.service", File: file, Want: "isolated", Write: "isolated", Support: knob.Settable, Phase: knob.Partitions,
	})
	for i, s := range o.Settings {
		if s.Knob == tune.UnitCPUs {
			o.Settings[i].Phase = knob.Exclusives // a partition begins with the CPUs of its group
		}
	}
	o.Again = false
	start()
	r.do(func(u *tuner.Tuner) { _, err := u.Apply(o); must(t, err) })
	r.reboot("two", nil)
	o.Again = true
	r.do(func(u *tuner.Tuner) { _, err := u.Apply(stops(o)); must(t, err) })
	repeats := func(restarted int, want string) {
		t.Helper()
		r.do(func(u *tuner.Tuner) {
			if again, err := u.Repeat(); err != nil || len(again.Started) > 0 || len(again.Restarted) != restarted {
				t.Errorf("%+v, %v", again, err)
			}
		})
		if now := strings.TrimSpace(r.files()[file]); now != want {
			t.Errorf("it is %s, want %s", now, want)
		}
	}
	r.lists[cgroup.KnobMems] = "1"
	start()
	repeats(0, "member")
	repeats(0, "member")
	must(t, os.Rename(r.plain.Path(service), r.plain.Path(service)+".old")) // its inode stays in use
	r.lists[cgroup.KnobCPUs] = "1"
	start()
	repeats(1, "isolated")
}

// TestBudgetsOfAStoppedUnit: a unit with a budget for real-time threads does not run. The budget of the group above
// serves it, the other units of the profile and those of other programs in this boot, if the root group has that much.
// Once the unit runs, Repeat gives it its budget, which needs no policy.
func TestBudgetsOfAStoppedUnit(t *testing.T) {
	const cpu, above, budget = "/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup/cpu,cpuacct/system.slice", "/cpu.rt_runtime_us"
	for name, tt := range map[string]struct {
		units         []string
		others        string // budget of another program's group
		stopped, runs string // budget of the group above
		started       int
	}{
		"beside a unit":               {[]string{"a.service", "b.service"}, "0", "400000", "400000", 1},
		"beside another program":      {[]string{"a.service", "b.service"}, "300000", "700000", "700000", 1},
		"more than the root group":    {[]string{"a.service", "b.service"}, "600000", "800000", "", 0},
		"alone":                       {[]string{"b.service"}, "0", "0", "200000", 2},
		"alone, with another program": {[]string{"b.service"}, "300000", "300000", "500000", 2},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			h.write("/proc/self/mountinfo", "25 24 0:21 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct\n")
			created := func(group, runtime string) {
				h.write(group+budget, runtime+"\n")
				h.write(group+"/cpu.rt_period_us", "1000000\n")
				h.write(group+"/tasks", "")
			}
			order := func(running ...string) tuner.Order {
				facts := tune.Host{Facts: knob.Facts{CPU: cpu, Units: map[string]bool{}, CPUGroups: map[string]string{}}, Files: map[string]string{}}
				bound := profile.Bound{Name: "test"}
				for _, unit := range tt.units {
					facts.Facts.Units[unit] = true
					bound.Units = append(bound.Units, profile.Unit{Name: unit, RTBudget: 200000})
				}
				for _, unit := range running {
					facts.Facts.CPUGroups[unit] = above + "/" + unit
					for _, file := range tune.Files(unit, facts.Facts) {
						maps.Copy(facts.Files, knob.Open(h.root.FS()).Texts(file))
					}
				}
				plan, waits := tune.Make(bound, facts, nil).WithoutStopped()
				o := tuner.Order{Settings: plan.Settings, Waiting: waits, Again: true}
				o.Profile.Name = "test"
				return o
			}
			boot := func(others string, units ...string) {
				must(t, os.RemoveAll(h.plain.Path(above)))
				created(cpu, "950000")
				created(above, others)
				created(above+"/other", others)
				for _, unit := range units {
					created(above+"/"+unit, "0")
				}
			}
			has := func(when, group, want string) {
				t.Helper()
				if now := strings.TrimSpace(h.files()[group+budget]); now != want {
					t.Errorf("%s: %s has %s, want %s", when, group, now, want)
				}
			}
			boot("0", tt.units...)
			var err error
			h.groups, err = cgroup.Open(h.root)
			must(t, err)
			h.do(func(u *tuner.Tuner) { _, err := u.Apply(order(tt.units...)); must(t, err) })
			whole := h.states()

			h.boot = "the next boot"
			running := tt.units[:len(tt.units)-1]
			boot(tt.others, running...)
			h.do(func(u *tuner.Tuner) { _, err := u.Apply(order(running...)); must(t, err) })
			has("without b", above, tt.stopped)
			if tt.started > 0 {
				created(above+"/b.service", "0")
				h.do(func(u *tuner.Tuner) {
					if again, err := u.Repeat(); err != nil || len(again.Started) != tt.started || len(again.Restarted) > 0 {
						t.Errorf("%+v, %v", again, err)
					}
				})
				has("with b", above, tt.runs)
				has("with b", above+"/b.service", "200000")
				if d := cmp.Diff(whole, h.states()); d != "" {
					t.Error(d)
				}
				h.do(func(u *tuner.Tuner) {
					if done, err := u.Apply(order(tt.units...)); err != nil || done.Writes > 0 {
						t.Errorf("%+v, %v", done, err)
					}
				})
			}
			h.do(func(u *tuner.Tuner) { u.Rollback() })
			has("rolled back", above, tt.others)
		})
	}
}

// TestLiveUnitOfABootStarts: a unit of the committed profile does not run at the apply after a boot. Once it runs,
// Repeat gives it its policy and slice, also if it was killed at any step, and once more after a restart. A rollback
// restores what the unit began with.
func TestLiveUnitOfABootStarts(t *testing.T) {
	u := newUnit(t)
	knobs := []string{tune.UnitPolicy, tune.UnitSlice}
	o := u.order(0)
	o.Settings = o.Settings[1:] // systemd sets the CPUs
	for step := 1; ; step++ {
		o.Again = false
		u.do(func(h *tuner.Tuner) { _, err := h.Apply(o); must(t, err) })
		u.stop()
		o.Again = true
		u.boot = fmt.Sprint("boot ", step)
		u.do(func(h *tuner.Tuner) {
			if r, err := h.Apply(stops(o)); err != nil || r.Writes > 0 {
				t.Errorf("%+v, %v", r, err)
			}
		})
		u.want("stopped", tune.Dormant, knobs...)
		u.do(func(h *tuner.Tuner) {
			if again, err := h.Repeat(); err != nil || !again.IsEmpty() {
				t.Errorf("stopped: %+v, %v", again, err)
			}
		})
		u.start()
		before := u.has()
		u.want("started", tune.Drift, tune.UnitPolicy)
		died := u.command(step, func(h *tuner.Tuner) {
			if again, err := h.Repeat(); err != nil || len(again.Started) != len(o.Settings) {
				t.Errorf("%+v, %v", again, err)
			}
		})
		u.do(func(h *tuner.Tuner) {
			again, err := h.Repeat()
			if err != nil || !died && !again.IsEmpty() {
				t.Errorf("killed at step %d: %+v, %v", step, again, err)
			}
			if a, _ := h.Applied(); len(a.Settings) != len(o.Settings) || len(a.Waiting) > 0 {
				t.Errorf("killed at step %d: %+v", step, a)
			}
		})
		u.want("set", tune.OK, knobs...)
		if !died {
			u.stop()
			u.start()
			before = u.has()
			u.do(func(h *tuner.Tuner) {
				if again, err := h.Repeat(); err != nil || len(again.Restarted) != len(o.Settings) {
					t.Errorf("restarted: %+v, %v", again, err)
				}
			})
		}
		u.do(func(h *tuner.Tuner) { h.Rollback() })
		u.asBefore(fmt.Sprintf("rolled back after step %d", step), before)
		if !died {
			if step < 10 {
				t.Errorf("only %d steps", step)
			}
			return
		}
	}
}
