package tuner_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/berth-project/berth/internal/capability/tune"
	"github.com/berth-project/berth/internal/capability/tune/tuner"
	"github.com/berth-project/berth/internal/engine/apply"
	"github.com/berth-project/berth/internal/engine/driver/cgroupfile"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/linux/knob"
	"github.com/berth-project/berth/internal/value/cpuset"
)

const (
	fast      = `berth\x2dfast.slice`
	fastGroup = "/sys/fs/cgroup/" + fast
	partition = fastGroup + "/cpuset.cpus.partition"
)

// slicer is a registry whose systemd starts and stops one slice.
type slicer struct {
	*registry

	is     cgroupfile.UnitState
	dropIn bool // systemd has a drop-in for the slice, without CPUs
}

func (s *slicer) State(unit string) (cgroupfile.UnitState, error) {
	if unit != fast {
		return cgroupfile.UnitState{Active: true}, nil
	}
	return s.is, nil
}

func (s *slicer) StartSlice(_ string, _ cgroupfile.UnitState, cpus cpuset.Set) error {
	if s.dropIn {
		cpus = cpuset.Set{}
	}
	s.run(cgroupfile.UnitState{Active: true, Own: true, CPUs: cpus})
	return nil
}

func (s *slicer) StopSlice(string) error {
	s.is = cgroupfile.UnitState{}
	must(s.t, os.RemoveAll(s.plain.Path(fastGroup)))
	return nil
}

func (s *slicer) SetList(unit string, k cgroup.Knob, v cgroup.Value) error {
	if unit != fast {
		return s.registry.SetList(unit, k, v)
	}
	if s.is.CPUs, _, _ = v.List(); v != cgroup.Inherit {
		s.write(fastGroup+"/cpuset.cpus", string(v))
		s.write(fastGroup+"/cpuset.cpus.effective", string(v))
	}
	return nil
}

// run makes the slice run, with the files of its group.
func (s *slicer) run(is cgroupfile.UnitState) {
	s.is = is
	for file, text := range map[string]string{
		"cgroup.controllers": "cpuset", "cgroup.procs": "", "cgroup.events": "populated 0",
		"cpuset.cpus": is.CPUs.String(), "cpuset.cpus.effective": is.CPUs.String(), "cpuset.cpus.partition": "member",
	} {
		s.write(fastGroup+"/"+file, text+"\n")
	}
}

// state is what systemd and the kernel have of the slice.
func (s *slicer) state() string {
	text, err := os.ReadFile(s.plain.Path(partition))
	if err != nil {
		return fmt.Sprintf("%t %s", s.is.Active, s.is.CPUs)
	}
	return fmt.Sprintf("%t %s %s", s.is.Active, s.is.CPUs, strings.TrimSpace(string(text)))
}

// newSlicer returns a host in the boot after the commit of a profile with a slice. The slice does not run yet.
func newSlicer(t *testing.T) (*slicer, tuner.Order, map[string]string) {
	t.Helper()
	r, o, kernel := newRegistry(t)
	s := &slicer{registry: r}
	r.units = s
	o.Settings = append([]tune.Setting{{
		Knob: tune.Partition, Instance: fast, File: partition, Want: "isolated 2-3", Write: "isolated 2-3", OwnSlice: true, Support: knob.Settable, Phase: knob.Partitions,
	}}, o.Settings...)
	o.Profile.Name, o.Again = "dpdk", false
	s.start()
	s.do(func(u *tuner.Tuner) { _, err := u.Apply(o); must(t, err) })
	s.given = nil
	if got := s.state(); got != "true 2-3 isolated" {
		t.Fatalf("applied: %s", got)
	}
	must(t, s.StopSlice(fast))
	s.reboot("two", kernel)
	o.Again = true
	return s, o, kernel
}

// TestSliceAfterBoot: Ahead starts the slice of a committed profile, or makes the slice a partition that systemd has
// started for a unit of the boot. An apply then finds it in effect, or makes it if Ahead did not. A rollback ends it,
// also if Ahead or the apply was killed at any step.
func TestSliceAfterBoot(t *testing.T) {
	for name, tt := range map[string]struct {
		begin func(*slicer)
		want  string
	}{
		"no slice":                {func(*slicer) {}, "false "},
		"a drop-in of a rollback": {func(s *slicer) { s.dropIn = true }, "false "},
		"systemd has started it":  {func(s *slicer) { s.run(cgroupfile.UnitState{Active: true, Units: []string{"poll.service"}}) }, "true  member"},
	} {
		t.Run(name, func(t *testing.T) {
			for fatal := 1; ; fatal++ {
				s, o, kernel := newSlicer(t)
				tt.begin(s)
				died := s.command(fatal, func(u *tuner.Tuner) {
					if given, err := u.Ahead(); err != nil || len(given) != 3 {
						t.Errorf("%v, %v, %q", given, err, u.Notes())
					}
				})
				if got := s.state(); !died && got != "true 2-3 isolated" {
					t.Errorf("ahead: %s", got)
				}
				s.named()
				s.start()
				died = s.command(fatal, func(u *tuner.Tuner) {
					done, err := u.Apply(o)
					must(t, err)
					if !died && done.Writes != 1 { // the kernel's value
						t.Errorf("%+v", done)
					}
				}) || died
				if got := s.state(); !died && got != "true 2-3 isolated" {
					t.Errorf("applied: %s", got)
				}
				if !died {
					s.do(func(u *tuner.Tuner) { s.verify(u, partition, "isolated 2-3", tune.OK) })
				}
				s.command(fatal, func(u *tuner.Tuner) { u.Rollback() })
				s.do(func(u *tuner.Tuner) { u.Rollback() })
				if got := s.state(); got != tt.want {
					t.Errorf("killed at step %d: rolled back: %q, want %q", fatal, got, tt.want)
				}
				must(t, os.RemoveAll(s.plain.Path(fastGroup)))
				s.restored(fmt.Sprintf("killed at step %d", fatal), kernel)
				if !died {
					return
				}
			}
		})
	}
}

// TestSliceOfOthers: a plan names a slice of another program, and that an apply refuses it, with the words of the
// apply.
func TestSliceOfOthers(t *testing.T) {
	s, o, _ := newSlicer(t)
	s.start()
	s.do(func(u *tuner.Tuner) { u.Rollback() })
	s.run(cgroupfile.UnitState{Active: true, Foreign: true})
	o.Again = false
	plan, err := s.host.host().Begins(tune.Plan{Settings: o.Settings})
	must(t, err)
	own := plan.Settings[0]
	if strings.Join(plan.Refuses, ", ") != own.Name() || own.Support != knob.ReadOnly || !strings.Contains(own.Why, "another program started it") {
		t.Errorf("the plan refuses %q: %+v", plan.Refuses, own)
	}
	s.do(func(u *tuner.Tuner) {
		if _, err := u.Apply(o); !errors.Is(err, cgroupfile.ErrForeign) || !strings.Contains(err.Error(), own.Why) {
			t.Error(err)
		}
	})
}

// TestSliceInUse: the undo of a slice that a service is in is not complete, and the profile stays on record until it
// is.
func TestSliceInUse(t *testing.T) {
	s, o, _ := newSlicer(t)
	s.start()
	s.do(func(u *tuner.Tuner) { _, err := u.Apply(o); must(t, err) })
	s.is.Units = []string{"poll.service"}
	s.do(func(u *tuner.Tuner) {
		var why error
		for _, r := range u.Rollback() {
			why = errors.Join(why, r.Err)
		}
		if _, is := u.Applied(); !is || !errors.Is(why, cgroupfile.ErrOccupied) || !errors.Is(why, apply.ErrPartly) || !strings.Contains(why.Error(), "poll.service") {
			t.Errorf("%t, %v", is, why)
		}
	})
	if got := s.state(); got != "true 2-3 member" {
		t.Errorf("in use: %s", got)
	}
	s.is.Units = nil
	s.do(func(u *tuner.Tuner) {
		if _, is := u.Applied(); is { // Open finishes what is due
			t.Error("it stays on record")
		}
	})
	if got := s.state(); got != "false " {
		t.Errorf("empty: %s", got)
	}
}
