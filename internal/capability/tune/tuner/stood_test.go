package tuner_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/internal/capability/tune"
	"github.com/berth-project/berth/internal/capability/tune/tuner"
	"github.com/berth-project/berth/internal/engine/apply"
	"github.com/berth-project/berth/internal/engine/driver"
	"github.com/berth-project/berth/internal/engine/driver/cgroupfile"
	"github.com/berth-project/berth/internal/engine/journal"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/linux/knob"
)

// originals returns the originals on record.
func (h *host) originals() map[string]string {
	h.t.Helper()
	s, err := journal.Load(h.state, driver.Values())
	must(h.t, err)
	entries, _ := s.Of(h.boot)
	all := map[string]string{}
	for _, e := range entries {
		all[e.Target.Knob] = string(e.Original)
	}
	return all
}

// TestStoodBeforeABoot: values that the host had already when a profile was committed are values of the profile. Berth
// has written none of them, so a rollback leaves them. After a boot that ended them Berth sets them: the lists before
// the unit starts, and the rest with the next apply. A rollback then restores what the boot brought.
func TestStoodBeforeABoot(t *testing.T) {
	for name, tt := range map[string]struct {
		reboots, ahead bool
		writes         int
	}{
		"no boot":                  {},
		"a boot":                   {reboots: true, writes: 3},
		"a boot, and lists before": {reboots: true, ahead: true, writes: 1},
	} {
		t.Run(name, func(t *testing.T) {
			r, o, kernel := newRegistry(t)
			r.do(func(u *tuner.Tuner) { u.Rollback() }) // forgets the profile of the last boot
			r.start()
			must(t, r.SetList("", cgroup.KnobCPUs, "1"))
			must(t, r.SetList("", cgroup.KnobMems, "1"))
			r.write(autogroup, "0")
			files, lists := r.files(), maps.Clone(r.lists)
			o.Again = false
			r.do(func(u *tuner.Tuner) {
				done, err := u.Apply(o)
				if a, _ := u.Applied(); err != nil || done.Writes != 0 || a.Phase != tuner.Committed || len(a.Settings) != 3 {
					t.Errorf("%+v, %v, on record %+v", done, err, a)
				}
			})
			if !tt.reboots {
				r.write(autogroup, "1") // by another program
				files[autogroup] = "1"
				r.do(func(u *tuner.Tuner) {
					if all := u.Rollback(); len(all) > 0 {
						t.Errorf("%+v", all)
					}
				})
				if d := cmp.Diff(files, r.files()) + cmp.Diff(lists, r.lists); d != "" {
					t.Error(d)
				}
				return
			}
			r.reboot("two", kernel)
			r.given = nil
			if tt.ahead {
				r.do(func(u *tuner.Tuner) {
					if given, err := u.Ahead(); err != nil || len(given) != 2 {
						t.Errorf("%+v, %v", given, err)
					}
				})
			}
			r.start()
			if given := fmt.Sprint(r.given); (given == "[1/1]") != tt.ahead {
				t.Errorf("it started with %s", given)
			}
			o.Again = true
			r.do(func(u *tuner.Tuner) {
				if done, err := u.Apply(o); err != nil || done.Writes != tt.writes {
					t.Errorf("%+v, %v, want %d", done, err, tt.writes)
				}
			})
			if r.lists[cgroup.KnobCPUs] != "1" || r.lists[cgroup.KnobMems] != "1" || r.files()[autogroup] != "0" {
				t.Errorf("systemd has %v, autogroup is %s", r.lists, r.files()[autogroup])
			}
			want := map[string]string{"sched_autogroup_enabled": "1", "cpuset.cpus": "inherit", "cpuset.mems": "inherit"}
			if d := cmp.Diff(want, r.originals()); d != "" {
				t.Error(d)
			}
			r.restored("after the boot", kernel)
		})
	}
}

// TestStoodInARestartedUnit: the group of a unit had the memory nodes of a profile already, so no entry is on record.
// Values that another program gives the group stay, and a rollback leaves them. After a restart of the unit, which
// begins without nodes, Berth sets them. A rollback then removes them again.
func TestStoodInARestartedUnit(t *testing.T) {
	for name, tt := range map[string]struct {
		restarts  bool
		has       string // then
		restarted int
		back      string
	}{
		"as it was":             {has: "1", back: "1"},
		"another program":       {has: "0", back: "0"},
		"a restart":             {restarts: true, has: "", restarted: 1, back: ""},
		"a restart with others": {restarts: true, has: "0", restarted: 1, back: "0"},
		"a restart with these":  {restarts: true, has: "1", back: "1"},
	} {
		t.Run(name, func(t *testing.T) {
			r, o, _ := newRegistry(t)
			r.do(func(u *tuner.Tuner) { u.Rollback() })
			r.units = nil // without systemd a list ends with the group
			start := func(mems string) {
				r.start()
				r.write(service+"/cpuset.mems", mems)
				r.follows()
			}
			start("1")
			o.Again, o.Settings = false, []tune.Setting{{
				Knob: tune.UnitMems, Instance: "db.service", File: service + "/cpuset.mems", Want: "1", Write: "1", Support: knob.Settable, Phase: knob.Units,
			}}
			r.do(func(u *tuner.Tuner) {
				if done, err := u.Apply(o); err != nil || done.Writes != 0 {
					t.Errorf("%+v, %v", done, err)
				}
			})
			r.whileHeld(func() { // the same profile once more leaves the nodes out, and they are on record as before
				o.Again = true
				r.do(func(u *tuner.Tuner) {
					if done, err := u.Apply(o); err != nil || done.Writes != 0 || len(done.Left) != 1 {
						t.Errorf("%+v, %v", done, err)
					}
				})
			})
			if tt.restarts {
				must(t, os.Rename(r.plain.Path(service), r.plain.Path(service)+".old")) // its inode stays in use
				start(tt.has)
			}
			r.write(service+"/cpuset.mems", tt.has)
			r.step = func(string) { r.follows() }
			for i, want := range []int{tt.restarted, 0} {
				r.do(func(u *tuner.Tuner) {
					again, err := u.Repeat()
					if err != nil || len(again.Restarted) != want || len(again.Followed) > 0 {
						t.Errorf("%d: %+v, %v, want %d", i, again, err, want)
					}
				})
			}
			mems := func() string { return strings.TrimSpace(r.files()[service+"/cpuset.mems"]) }
			now, entries := tt.has, map[string]string{}
			if tt.restarted > 0 {
				now, entries["cpuset.mems"] = "1", tt.has
				if tt.has == "" {
					entries["cpuset.mems"] = "inherit"
				}
			}
			if d := cmp.Diff(entries, r.originals()); d != "" || mems() != now {
				t.Errorf("it has %q, want %q: %s", mems(), now, d)
			}
			if tt.restarts && tt.restarted == 0 { // another program's value in the group that needed nothing
				r.write(service+"/cpuset.mems", "0")
				tt.back = "0"
				r.do(func(u *tuner.Tuner) {
					if again, err := u.Repeat(); err != nil || !again.IsEmpty() || mems() != "0" {
						t.Errorf("%+v, %v: it has %q", again, err, mems())
					}
				})
			}
			r.do(func(u *tuner.Tuner) {
				for at, outcome := range outcomes(u.Rollback()) {
					if outcome != apply.OutcomeRestored {
						t.Errorf("%s: %s", at, outcome)
					}
				}
			})
			if mems() != tt.back {
				t.Errorf("rolled back: %q, want %q", mems(), tt.back)
			}
			if _, is, err := tuner.Load(r.state); is || err != nil {
				t.Errorf("on record: %t, %v", is, err)
			}
		})
	}
}

// TestStartsOfAWaitingUnit: a unit did not run at the apply after a boot. Each start of the unit may bring memory nodes
// of its own. Repeat sets the nodes of the profile only where they lack, also if it was killed at any step of the first
// start, and a rollback restores those of the last start.
func TestStartsOfAWaitingUnit(t *testing.T) {
	for name, tt := range map[string]struct {
		starts []string // memory nodes
		set    []int    // how many settings Repeat sets
	}{
		"had them":                         {[]string{"1"}, []int{0}},
		"had them, and then none":          {[]string{"1", ""}, []int{0, 1}},
		"had them, and then others":        {[]string{"1", "0"}, []int{0, 1}},
		"had them twice, and then none":    {[]string{"1", "1", ""}, []int{0, 0, 1}},
		"got them":                         {[]string{""}, []int{1}},
		"got them, had them and lost them": {[]string{"", "1", ""}, []int{1, 0, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			for fatal := 1; ; fatal++ {
				r, o, _ := newRegistry(t)
				r.do(func(u *tuner.Tuner) { u.Rollback() })
				r.units, r.makes = nil, func(string) { r.follows() } // without systemd a list ends with the group
				start := func(n int) {
					if n > 0 {
						must(t, os.Rename(r.plain.Path(service), r.plain.Path(service)+fmt.Sprint(n))) // its inode stays in use
					}
					r.start()
					r.write(service+"/cpuset.mems", tt.starts[n])
					r.follows()
				}
				o.Settings = []tune.Setting{{
					Knob: tune.UnitMems, Instance: "db.service", File: service + "/cpuset.mems", Want: "1", Write: "1", Support: knob.Settable, Phase: knob.Units,
				}}
				o.Again = false
				r.start()
				r.command(0, func(u *tuner.Tuner) { _, err := u.Apply(o); must(t, err) })
				r.reboot("two", nil)
				o.Again = true
				r.command(0, func(u *tuner.Tuner) { _, err := u.Apply(stops(o)); must(t, err) })
				start(0)
				died := r.command(fatal, func(u *tuner.Tuner) {
					again, err := u.Repeat()
					if err != nil || len(again.Started) != tt.set[0] || len(again.Restarted)+len(again.Followed) > 0 {
						t.Errorf("%+v, %v", again, err)
					}
				})
				if died {
					r.command(0, func(u *tuner.Tuner) { _, err := u.Repeat(); must(t, err) })
				}
				last := ""
				for n, set := range tt.set {
					if n > 0 {
						start(n)
						for _, want := range []int{set, 0} {
							r.command(0, func(u *tuner.Tuner) {
								again, err := u.Repeat()
								if err != nil || len(again.Restarted) != want || len(again.Started)+len(again.Followed) > 0 {
									t.Errorf("killed at step %d, start %d: %+v, %v, want %d", fatal, n, again, err, want)
								}
							})
						}
					}
					last = tt.starts[n]
					if now := strings.TrimSpace(r.files()[service+"/cpuset.mems"]); now != "1" || len(r.originals()) != set {
						t.Errorf("killed at step %d, start %d: it has %q, and on record is %v", fatal, n, now, r.originals())
					}
				}
				r.command(0, func(u *tuner.Tuner) { u.Rollback() })
				if now := strings.TrimSpace(r.files()[service+"/cpuset.mems"]); now != last || len(r.originals()) > 0 {
					t.Errorf("rolled back after step %d: it has %q, want %q, and on record is %v", fatal, now, last, r.originals())
				}
				if !died {
					if fatal == 1 {
						t.Error("it has no steps")
					}
					return
				}
			}
		})
	}
}

// whileHeld calls f while the agent has the memory nodes of the unit on record.
func (r *registry) whileHeld(f func()) {
	r.t.Helper()
	j, err := journal.Open(filepath.Dir(r.state), r.boot, driver.Values())
	must(r.t, err)
	held := cgroupfile.Target(group, cgroup.KnobMems)
	must(r.t, j.Begin(journal.Entry{Target: held, ID: "x", Original: "0-3", Owner: "localize", Workload: "w"}))
	f()
	must(r.t, j.Forget(held))
	must(r.t, j.Close())
}

// follows makes the kernel use the memory nodes that the unit's group has, and all nodes for none.
func (r *registry) follows() {
	text := strings.TrimSpace(r.files()[service+"/cpuset.mems"])
	if text == "" {
		text = "0-3"
	}
	r.write(service+"/cpuset.mems.effective", text)
}
