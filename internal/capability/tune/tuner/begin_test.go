package tuner_test

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/internal/capability/tune"
	"github.com/berth-project/berth/internal/capability/tune/tuner"
	"github.com/berth-project/berth/internal/engine/apply"
	"github.com/berth-project/berth/internal/engine/driver/cgroupfile"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/linux/knob"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// TestUnitThatAsksForOtherCPUs: if a unit could not start with the list of a profile, an apply writes nothing, and the
// plan says so with the same words. After a boot the list and what depends on it are left out. A unit that asks for
// some of the CPUs gets the list, and the plan says which of them it will use.
func TestUnitThatAsksForOtherCPUs(t *testing.T) {
	for name, tt := range map[string]struct {
		asks  cpuset.Set
		cpus  string
		again bool
		err   error
		left  int
		note  string
	}{
		"other CPUs":               {asks: few(2, 3), cpus: "1", err: tuner.ErrBegin, note: "db.service has CPUAffinity=2-3 itself, and could not start with 1"},
		"other CPUs, after a boot": {asks: few(2, 3), cpus: "1", again: true, left: 2, note: "could not start with 1"},
		"some of the CPUs":         {asks: few(1, 2), cpus: "2-3", note: "it uses only 2 of these: it has CPUAffinity=1-2 itself"},
		"these CPUs and others":    {asks: few(1, 2), cpus: "1"},
		"these CPUs":               {asks: few(1), cpus: "1"},
		"no CPUs":                  {cpus: "1"},
	} {
		t.Run(name, func(t *testing.T) {
			r, o, _ := newRegistry(t)
			r.start()
			if !tt.again {
				r.do(func(u *tuner.Tuner) { u.Rollback() }) // forgets the profile of the last boot
			}
			r.asks, o.Again = tt.asks, tt.again
			for i := range o.Settings {
				if s := &o.Settings[i]; s.Knob == tune.UnitCPUs {
					s.Want, s.Write, s.Why = tt.cpus, tt.cpus, "a trap"
				}
			}
			host := r.host.host()
			plan, err := host.Begins(tune.Plan{Settings: o.Settings})
			must(t, err)
			refuses, why := "", ""
			if tt.err != nil || tt.again {
				refuses = "unit.cpus db.service"
			}
			for _, s := range plan.Settings {
				if s.Knob == tune.UnitCPUs {
					why = s.Why
				}
				if marked := s.Support != knob.Settable; marked != (s.Knob == tune.UnitCPUs && refuses != "") {
					t.Errorf("%s is %s", s.Knob, s.Support)
				}
			}
			if strings.Join(plan.Refuses, ", ") != refuses || !strings.Contains(why, tt.note) || tt.note == "" && why != "a trap" {
				t.Errorf("the plan refuses %q, and says %q", plan.Refuses, why)
			}
			files, lists := r.files(), maps.Clone(r.lists)
			r.do(func(u *tuner.Tuner) {
				done, err := u.Apply(o)
				if !errors.Is(err, tt.err) || tt.err != nil && !strings.Contains(err.Error(), why) || len(done.Left) != tt.left {
					t.Errorf("%+v, %v", done, err)
				}
			})
			if tt.err != nil {
				if d := cmp.Diff(files, r.files()) + cmp.Diff(lists, r.lists); d != "" {
					t.Error(d)
				}
				if _, is, err := tuner.Load(r.state); is || err != nil {
					t.Errorf("on record: %t, %v", is, err)
				}
			}
			if kept := r.lists[cgroup.KnobCPUs] == lists[cgroup.KnobCPUs]; kept != (refuses != "") {
				t.Errorf("systemd has %v", r.lists)
			}
		})
	}
}

// mute is a systemd that does not answer.
type mute struct {
	*registry
	asked []cgroup.Knob
}

func (m *mute) Asked(_ string, k cgroup.Knob) (cpuset.Set, error) {
	m.asked = append(m.asked, k)
	return cpuset.Set{}, cgroupfile.ErrNoUnits
}

// TestSystemdThatDoesNotAnswer: what units ask for is then unknown. A plan says so once, marks nothing, and does not
// ask again; an apply writes nothing.
func TestSystemdThatDoesNotAnswer(t *testing.T) {
	r, o, _ := newRegistry(t)
	r.start()
	r.do(func(u *tuner.Tuner) { u.Rollback() })
	o.Again = false
	m := &mute{registry: r}
	r.units = m
	plan, err := r.host.host().Begins(tune.Plan{Settings: o.Settings})
	if !errors.Is(err, cgroupfile.ErrNoUnits) || len(plan.Refuses) > 0 || len(m.asked) != 1 {
		t.Errorf("%v: it refuses %q after %q", err, plan.Refuses, m.asked)
	}
	if !slices.EqualFunc(plan.Settings, o.Settings, func(a, b tune.Setting) bool { return a == b }) {
		t.Errorf("the plan is %+v", plan.Settings)
	}
	files := r.files()
	r.do(func(u *tuner.Tuner) {
		if _, err := u.Apply(o); !errors.Is(err, cgroupfile.ErrNoUnits) || errors.Is(err, apply.ErrRefused) {
			t.Errorf("apply: %v", err)
		}
	})
	if d := cmp.Diff(files, r.files()); d != "" {
		t.Error(d)
	}
}
