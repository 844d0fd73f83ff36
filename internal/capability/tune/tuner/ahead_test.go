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
	"github.com/berth-project/berth/internal/value/cpuset"
)

const (
	service = "/sys/fs/cgroup/system.slice/db.service"
	group   = "system.slice/db.service"
)

// registry is a systemd with one unit. It has the lists of the unit on record, and writes them to its group. The first
// list makes the group, also of a unit that does not run, as in unit_realize_cgroup of systemd.
type registry struct {
	*host

	lists map[cgroup.Knob]cgroup.Value
	asks  cpuset.Set // CPUAffinity= of the unit
	given []string   // the lists that the group of each start of the unit began with
}

func (r *registry) SetList(_ string, k cgroup.Knob, v cgroup.Value) error {
	r.lists[k] = v
	if _, err := os.Stat(r.plain.Path(service)); err != nil {
		r.realize()
	} else if v != cgroup.Inherit {
		r.list(k)
	}
	return nil
}

func (r *registry) list(k cgroup.Knob) {
	text, effective := string(r.lists[k]), string(r.lists[k])
	if r.lists[k] == cgroup.Inherit {
		text, effective = "", "0-3"
	}
	r.write(service+"/"+string(k), text)
	r.write(service+"/"+string(k)+".effective", effective)
}

func (*registry) MayRecord(at string, _ cgroup.Knob) bool { return at == group }

func (r *registry) Property(_ string, k cgroup.Knob) (cgroup.Value, bool, error) {
	return r.lists[k], true, nil
}

func (r *registry) Origin(_ string, k cgroup.Knob) (cgroup.Value, bool, error) {
	return r.lists[k], true, nil
}

func (r *registry) SetProperty(_ string, k cgroup.Knob, v cgroup.Value) error {
	return r.SetList("", k, v)
}

func (r *registry) Asked(_ string, k cgroup.Knob) (cpuset.Set, error) {
	if k == cgroup.KnobMems {
		return cpuset.Set{}, nil
	}
	return r.asks, nil
}

func (r *registry) realize() {
	r.write(service+"/cgroup.controllers", "cpuset\n")
	r.write(service+"/cgroup.procs", "")
	r.list(cgroup.KnobCPUs)
	r.list(cgroup.KnobMems)
}

// start starts the unit, with the lists on record.
func (r *registry) start() {
	r.realize()
	r.given = append(r.given, fmt.Sprintf("%s/%s", r.lists[cgroup.KnobCPUs], r.lists[cgroup.KnobMems]))
}

// reboot ends what a boot ends: the lists, the group, and the kernel's values.
func (r *registry) reboot(id string, kernel map[string]string) {
	r.lists = map[cgroup.Knob]cgroup.Value{cgroup.KnobCPUs: cgroup.Inherit, cgroup.KnobMems: cgroup.Inherit}
	must(r.t, os.RemoveAll(r.plain.Path(service)))
	for file, text := range kernel {
		r.write(file, text)
	}
	r.boot = id
}

// newRegistry returns a host on which a profile with the lists of a unit was committed, in its next boot. The unit does
// not run yet.
func newRegistry(t *testing.T) (*registry, tuner.Order, map[string]string) {
	t.Helper()
	h := newHost(t)
	h.write("/proc/self/mountinfo", "25 24 0:21 / /sys/fs/cgroup rw,relatime - cgroup2 cgroup rw\n")
	for _, at := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/system.slice"} {
		for file, text := range map[string]string{
			"cgroup.controllers": "cpuset", "cgroup.procs": "", "cpuset.cpus.effective": "0-3", "cpuset.mems.effective": "0-3",
		} {
			h.write(at+"/"+file, text+"\n")
		}
	}
	h.write("/sys/devices/system/cpu/online", "0-3")
	h.write("/sys/devices/system/cpu/possible", "0-3")
	h.write("/proc/sys/kernel/sched_rt_runtime_us", "950000\n")
	h.write("/proc/sys/kernel/sched_rt_period_us", "1000000\n")
	kernel := h.files()
	var err error
	h.groups, err = cgroup.Open(h.root)
	must(t, err)
	r := &registry{host: h}
	h.units = r
	r.reboot("zero", nil)
	r.start()
	o := order(0, map[string]string{autogroup: "0"})
	for _, of := range [][2]string{{tune.UnitCPUs, "cpuset.cpus"}, {tune.UnitMems, "cpuset.mems"}} { // the same steps in each run
		o.Settings = append(o.Settings, tune.Setting{
			Knob: of[0], Instance: "db.service", File: service + "/" + of[1], Want: "1", Write: "1", Support: knob.Settable, Phase: knob.Units,
		})
	}
	h.do(func(u *tuner.Tuner) { _, err := u.Apply(o); must(t, err) })
	if r.lists[cgroup.KnobCPUs] != "1" || r.lists[cgroup.KnobMems] != "1" {
		t.Fatalf("systemd has %v", r.lists)
	}
	o.Again = true
	r.reboot("one", kernel)
	r.given = nil
	return r, o, kernel
}

// named checks that the record names each target with an entry: it decides for a reader that cannot read the journal.
func (r *registry) named() {
	r.t.Helper()
	a, _, err := tuner.Load(r.state)
	s, unread := journal.Load(r.state, driver.Values())
	if err != nil || unread != nil {
		r.t.Fatal(err, unread)
	}
	entries, _ := s.Of(r.boot)
	for _, e := range entries {
		if !a.Has(e.Target, r.boot) {
			r.t.Errorf("the record does not name %s", e.Target)
		}
	}
}

// restored checks that a rollback left neither a list, nor a value, nor a record.
func (r *registry) restored(when string, kernel map[string]string) {
	r.t.Helper()
	r.step = func(string) { // the kernel uses all CPUs for an empty list
		for _, k := range []cgroup.Knob{cgroup.KnobCPUs, cgroup.KnobMems} {
			if text, err := os.ReadFile(r.plain.Path(service + "/" + string(k))); err == nil && strings.TrimSpace(string(text)) == "" {
				r.write(service+"/"+string(k)+".effective", "0-3")
			}
		}
	}
	defer func() { r.step = nil }()
	r.do(func(u *tuner.Tuner) {
		for _, b := range u.Rollback() {
			if b.Err != nil || b.Outcome == apply.OutcomeDrifted {
				r.t.Errorf("%s: %+v", when, b)
			}
		}
	})
	if r.lists[cgroup.KnobCPUs] != cgroup.Inherit || r.lists[cgroup.KnobMems] != cgroup.Inherit {
		r.t.Errorf("%s: systemd has %v", when, r.lists)
	}
	now := r.files()
	maps.DeleteFunc(now, func(file, text string) bool {
		if strings.HasPrefix(file, service+"/cpuset") && !strings.HasSuffix(file, "effective") && strings.TrimSpace(text) != "" {
			r.t.Errorf("%s: %s has %q", when, file, text)
		}
		return strings.HasPrefix(file, service)
	})
	if d := cmp.Diff(kernel, now); d != "" {
		r.t.Errorf("%s (-before +after):\n%s", when, d)
	}
	s, err := journal.Load(r.state, driver.Values())
	if _, is, bad := tuner.Load(r.state); is || err != nil || bad != nil || len(s.Entries) > 0 {
		r.t.Errorf("%s: on record %t, %v; %v, %v", when, is, bad, s.Entries, err)
	}
}

// TestListsBeforeAUnitStarts: after a boot a unit starts with the lists of the committed profile. An apply then finds
// them in effect, and a rollback at any time restores all, also if Ahead was killed at any step.
func TestListsBeforeAUnitStarts(t *testing.T) {
	const whole = "1/1"
	for name, then := range map[string]func(*registry, tuner.Order){
		"rolled back at once": func(*registry, tuner.Order) {},
		"started":             func(r *registry, _ tuner.Order) { r.start() },
		"applied": func(r *registry, o tuner.Order) {
			r.start()
			r.do(func(u *tuner.Tuner) {
				done, err := u.Apply(o)
				if err != nil || done.Writes < 1 || r.given[0] == whole && done.Writes > 1 {
					r.t.Errorf("begun with %v: %+v, %v", r.given, done, err)
				}
				if a, _ := u.Applied(); !a.Stands(r.boot) || a.Early != "" || len(a.Settings) != 3 {
					r.t.Errorf("%+v", a)
				}
			})
			if r.lists[cgroup.KnobCPUs] != "1" || r.lists[cgroup.KnobMems] != "1" {
				r.t.Errorf("systemd has %v", r.lists)
			}
			must(r.t, r.tuner().Close())
		},
		"ended": func(r *registry, o tuner.Order) {
			r.start()
			must(r.t, os.RemoveAll(r.plain.Path(service)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			for fatal := 1; ; fatal++ {
				r, o, kernel := newRegistry(t)
				dies := r.command(fatal, func(u *tuner.Tuner) {
					if given, err := u.Ahead(); err != nil || len(given) != 2 || len(u.Notes()) > 1 {
						t.Errorf("%v, %v, %q", given, err, u.Notes())
					}
				})
				r.named()
				then(r, o)
				if !dies && len(r.given) > 0 && r.given[0] != whole {
					t.Errorf("it started with %q", r.given)
				}
				r.restored(fmt.Sprintf("killed at step %d", fatal), kernel)
				if !dies {
					if fatal < 10 {
						t.Errorf("it has only %d steps", fatal)
					}
					return
				}
			}
		})
	}
}

// TestListsThatStayOut: Ahead writes no list that may have killed the host, that the agent holds, with which a unit
// could not start, or of a unit that runs. It says why.
func TestListsThatStayOut(t *testing.T) {
	for name, tt := range map[string]struct {
		before func(*registry, tuner.Order, map[string]string)
		given  int
		note   string
	}{
		"twice in a boot": {func(r *registry, _ tuner.Order, _ map[string]string) {
			r.do(func(u *tuner.Tuner) { _, err := u.Ahead(); must(r.t, err) })
		}, 0, ""},
		"no apply ended after it": {func(r *registry, _ tuner.Order, kernel map[string]string) {
			r.do(func(u *tuner.Tuner) { _, err := u.Ahead(); must(r.t, err) })
			r.reboot("two", kernel)
		}, 0, "no apply of it ended"},
		"an apply ended after it": {func(r *registry, o tuner.Order, kernel map[string]string) {
			r.do(func(u *tuner.Tuner) { _, err := u.Ahead(); must(r.t, err) })
			r.start()
			r.do(func(u *tuner.Tuner) { _, err := u.Apply(o); must(r.t, err) })
			r.reboot("two", kernel)
		}, 2, ""},
		"the host died in an apply": {func(r *registry, o tuner.Order, kernel map[string]string) {
			r.start()
			r.command(4, func(u *tuner.Tuner) { _, _ = u.Apply(o) })
			r.reboot("two", kernel)
		}, 0, "no apply of it ended"},
		"the agent holds one": {func(r *registry, _ tuner.Order, _ map[string]string) {
			j, err := journal.Open(filepath.Dir(r.state), r.boot, driver.Values())
			must(r.t, err)
			held := cgroupfile.Target(group, cgroup.KnobCPUs)
			must(r.t, j.Begin(journal.Entry{Target: held, ID: "x", Original: "0-3", Owner: "place", Workload: "w"}))
			must(r.t, j.Close())
		}, 0, "the agent holds it"},
		"it asks for other CPUs": {func(r *registry, _ tuner.Order, _ map[string]string) { r.asks = few(2, 3) }, 1, "could not start with 1"},
		"it asks for these":      {func(r *registry, _ tuner.Order, _ map[string]string) { r.asks = few(1, 2) }, 2, ""},
		"it runs":                {func(r *registry, _ tuner.Order, _ map[string]string) { r.start() }, 0, ""},
		"uncommitted": {func(r *registry, o tuner.Order, kernel map[string]string) {
			r.do(func(u *tuner.Tuner) { u.Rollback() })
			r.start()
			o.Confirm, o.Again = confirm, false
			r.do(func(u *tuner.Tuner) { _, err := u.Apply(o); must(r.t, err) })
			r.reboot("two", kernel)
		}, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r, o, kernel := newRegistry(t)
			tt.before(r, o, kernel)
			before := maps.Clone(r.lists)
			r.do(func(u *tuner.Tuner) {
				given, err := u.Ahead()
				if len(given) != tt.given || err != nil || !strings.Contains(strings.Join(u.Notes(), "; "), tt.note) {
					t.Errorf("%v, %v, %q", given, err, u.Notes())
				}
			})
			if d := cmp.Diff(before, r.lists); (d != "") != (tt.given > 0) {
				t.Errorf("systemd's lists (-before +after):\n%s", d)
			}
		})
	}
}

func few(cpus ...int) (set cpuset.Set) {
	for _, cpu := range cpus {
		set = set.Add(cpu)
	}
	return set
}
