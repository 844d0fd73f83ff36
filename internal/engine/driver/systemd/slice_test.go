package systemd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	sd "github.com/coreos/go-systemd/v22/dbus"
	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/internal/engine/apply"
	"github.com/berth-project/berth/internal/engine/driver/cgroupfile"
	"github.com/berth-project/berth/internal/engine/journal"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/test/plain"
)

const fast = `berth\x2dfast.slice`

// starter is a reloader that starts and stops slices.
type starter struct {
	*reloader

	host    *cgroup.Host
	journal *journal.Journal
	// result is how its jobs end.
	result string
	// asked are the units whose properties were read.
	asked []string
}

func (s *starter) GetAllPropertiesContext(ctx context.Context, unit string) (map[string]any, error) {
	s.asked = append(s.asked, unit)
	return s.reloader.GetAllPropertiesContext(ctx, unit)
}

func newStarter(t *testing.T) *starter {
	t.Helper()
	s := &starter{reloader: &reloader{Host: plain.WithGroups(t, "cpuset"), t: t, units: map[string]map[string]any{}}, result: "done"}
	for file, text := range map[string]string{
		"devices/system/cpu/online": "0-3", "devices/system/cpu/possible": "0-3",
		"fs/cgroup/cpuset.cpus.effective": "0-3", "fs/cgroup/cgroup.procs": "",
	} {
		s.write("sys/"+file, text)
	}
	s.host = s.Cgroups()
	var err error
	if s.journal, err = journal.Open(t.TempDir(), "boot", cgroupfile.Values()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.journal.Close() })
	return s
}

// run makes a slice run, with the files of its group.
func (s *starter) run(name string, properties map[string]any) {
	all := map[string]any{"LoadState": "loaded", "ActiveState": "active", "ControlGroup": "/" + name, "AllowedCPUs": []byte{}, "Transient": false, "FragmentPath": "", "Description": name}
	maps.Copy(all, properties)
	s.units[name] = all
	for file, text := range map[string]string{
		"cgroup.controllers": "cpuset", "cgroup.procs": "", "cgroup.events": "populated 0",
		"cpuset.cpus": "", "cpuset.cpus.effective": "0-3", "cpuset.cpus.partition": "member",
	} {
		s.write("sys/fs/cgroup/"+name+"/"+file, text)
	}
	s.apply(name, true, false)
}

func (s *starter) StartUnitContext(_ context.Context, name, mode string, done chan<- string) (int, error) {
	if s.units[name] == nil {
		return 0, errors.New("not loaded")
	}
	if s.result == "done" {
		maps.Copy(s.units[name], map[string]any{"ActiveState": "active", "ControlGroup": "/" + name})
		s.run(name, s.units[name])
	}
	if done <- s.result; mode != "fail" {
		return 0, errors.New(mode)
	}
	return 1, s.fails
}

func (s *starter) StartTransientUnitContext(_ context.Context, name, mode string, properties []sd.Property, done chan<- string) (int, error) {
	if file, _ := s.units[name]["FragmentPath"].(string); file != "" {
		return 0, fmt.Errorf("unit %s was already loaded or has a fragment file", name)
	}
	all := map[string]any{"Transient": true, "FragmentPath": "/run/systemd/transient/" + name}
	for _, p := range properties {
		all[p.Name] = p.Value.Value()
	}
	if s.result == "done" {
		s.run(name, all)
	}
	if done <- s.result; mode != "fail" {
		return 0, errors.New(mode)
	}
	return 1, s.fails
}

func (s *starter) StopUnitContext(_ context.Context, name, mode string, done chan<- string) (int, error) {
	if users, _ := s.units[name]["RequiredBy"].([]string); len(users) > 0 { // a unit names it, so it stays loaded
		s.units[name]["ActiveState"], s.units[name]["ControlGroup"] = "inactive", ""
	} else {
		delete(s.units, name)
	}
	s.Remove("sys/fs/cgroup/" + name)
	if done <- "done"; mode != "fail" {
		return 0, errors.New(mode)
	}
	return 1, s.fails
}

// state is what systemd and the kernel have of the slice.
func (s *starter) state() string {
	unit := s.units[fast]
	if unit == nil {
		if _, err := os.Stat(s.Path("sys/fs/cgroup", fast)); err == nil {
			return "a group without a unit"
		}
		return "absent"
	}
	mask, _ := unit["AllowedCPUs"].([]byte)
	if unit["ActiveState"] == "inactive" {
		return fmt.Sprintf("stopped, systemd %s", setOf(mask))
	}
	return fmt.Sprintf("%v, systemd %s, kernel %q %s", unit["Transient"], setOf(mask), s.read(fast+"/cpuset.cpus"), s.read(fast+"/cpuset.cpus.partition"))
}

// kinds and applier return what the next command has.
func (s *starter) kinds() apply.Kinds {
	conn := New()
	conn.dial = func() (bus, error) { return s, nil }
	return cgroupfile.Kinds(s.host, conn)
}

func (s *starter) applier(step func(apply.Step, plan.Target)) *apply.Applier {
	return apply.New(s.kinds(), s.journal, apply.Options{Step: step, Records: true})
}

// become makes the slice an isolated partition, as an apply does: the original is claimed first.
func become(a *apply.Applier) error {
	target := cgroupfile.SliceTarget(fast)
	now := a.Read([]plan.Target{target})[0]
	if now.Err != nil {
		return now.Err
	}
	changes := []plan.Change{{Setting: plan.Setting{Target: target, ID: now.ID, Value: "isolated 2-3", Owner: "tune", Workload: "dpdk"}, From: now.Value}}
	if err := a.Claim(changes); err != nil {
		return err
	}
	return a.Apply(changes)[0].Err
}

const ours = `true, systemd 2-3, kernel "2-3" isolated`

// TestSlice: a slice becomes a partition and goes back, also if each of the two commands dies at any step.
func TestSlice(t *testing.T) {
	type killed struct{}
	for name, tt := range map[string]struct {
		begin         func(*starter)
		before, after string
	}{
		"no slice": {func(*starter) {}, "absent", ours},
		"started by systemd for a service": {func(s *starter) {
			s.run(fast, map[string]any{"RequiredBy": []string{"poll.service"}})
			s.units["poll.service"] = map[string]any{"ActiveState": "active", "ControlGroup": ""}
		}, `false, systemd , kernel "" member`, `false, systemd 2-3, kernel "2-3" isolated`},
		"stopped, and named by a service": {func(s *starter) {
			s.units[fast] = map[string]any{
				"LoadState": "loaded", "ActiveState": "inactive", "ControlGroup": "", "AllowedCPUs": []byte{}, "Transient": true,
				"FragmentPath": "/run/systemd/transient/" + fast, "Description": ownSlice, "RequiredBy": []string{"poll.service"},
			}
			s.units["poll.service"] = map[string]any{"ActiveState": "inactive", "ControlGroup": ""}
		}, "stopped, systemd ", ours},
		"with the CPUs of an administrator": {func(s *starter) {
			s.run(fast, map[string]any{"AllowedCPUs": []byte{1}})
		}, `false, systemd 0, kernel "0" member`, `false, systemd 2-3, kernel "2-3" isolated`},
	} {
		for command, least := range []int{6, 3} { // an apply and an undo, with the least number of their steps
			t.Run(fmt.Sprintf("%s, command %d", name, command), func(t *testing.T) {
				for fatal := 1; ; fatal++ {
					s := newStarter(t)
					tt.begin(s)
					if got := s.state(); got != tt.before {
						t.Fatalf("before: %s, want %s", got, tt.before)
					}
					died := false
					run := func(which int, f func(*apply.Applier)) {
						n := 0
						defer func() {
							if r := recover(); r != nil && r != (killed{}) {
								panic(r)
							} else if r != nil {
								died = true
							}
						}()
						f(s.applier(func(step apply.Step, at plan.Target) {
							s.kernel(step, at)
							if n++; which == command && n == fatal {
								panic(killed{})
							}
						}))
					}
					run(0, func(a *apply.Applier) {
						if err := become(a); err != nil {
							t.Error(err)
						}
						if got := s.state(); got != tt.after {
							t.Errorf("applied: %s, want %s", got, tt.after)
						}
					})
					run(1, func(a *apply.Applier) { a.Restore(nil, false) })
					for _, r := range s.applier(s.kernel).Restore(nil, false) {
						if r.Err != nil || r.Outcome != apply.OutcomeRestored && r.Outcome != apply.OutcomeAlready {
							t.Errorf("killed at step %d: %+v", fatal, r)
						}
					}
					if got := s.state(); got != tt.before || len(s.journal.Entries()) > 0 {
						t.Errorf("killed at step %d: %s, want %s; on record %v", fatal, got, tt.before, s.journal.Entries())
					}
					if !died {
						if fatal < least {
							t.Errorf("only %d steps", fatal)
						}
						return
					}
				}
			})
		}
	}
}

// TestSliceInUse: a rollback ends the partition of a slice with a unit or a process in it, and names the unit. It stops
// the slice once nothing is in it. A dry run predicts both, and changes nothing. A read asks for no unit in the slice.
func TestSliceInUse(t *testing.T) {
	for name, tt := range map[string]struct {
		enter, leave func(*starter)
		after        string
	}{
		"poll.service": {after: "stopped, systemd ", enter: func(s *starter) {
			s.units[fast]["RequiredBy"] = []string{"poll.service", "ended.service", "failed.service"}
			s.units["poll.service"] = map[string]any{"ActiveState": "activating"}
			s.units["ended.service"] = map[string]any{"ActiveState": "inactive"}
			s.units["failed.service"] = map[string]any{"ActiveState": "failed"}
		}, leave: func(s *starter) { s.units["poll.service"]["ActiveState"] = "inactive" }},
		"processes of no unit": {
			after: "absent",
			enter: func(s *starter) { s.write("sys/fs/cgroup/"+fast+"/cgroup.events", "populated 1") },
			leave: func(s *starter) { s.write("sys/fs/cgroup/"+fast+"/cgroup.events", "populated 0") },
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStarter(t)
			if err := become(s.applier(nil)); err != nil {
				t.Fatal(err)
			}
			tt.enter(s)
			s.asked = nil
			if now := s.applier(nil).Read([]plan.Target{cgroupfile.SliceTarget(fast)})[0]; now.Err != nil || !slices.Equal(s.asked, []string{fast}) {
				t.Errorf("%+v after %q", now, s.asked)
			}
			for range 2 {
				before := s.state()
				said := apply.Compare(s.kinds(), s.journal.Entries())[0]
				if got := s.state(); got != before {
					t.Errorf("a dry run: %s, before %s", got, before)
				}
				r := s.applier(nil).Restore(nil, false)[0]
				if said.Outcome != r.Outcome || fmt.Sprint(said.Err) != fmt.Sprint(r.Err) {
					t.Errorf("a dry run: %s, %v", said.Outcome, said.Err)
				}
				if !errors.Is(r.Err, cgroupfile.ErrOccupied) || !errors.Is(r.Err, apply.ErrPartly) || !strings.Contains(r.Err.Error(), "it has "+name+": stop") {
					t.Errorf("%s: %v", r.Outcome, r.Err)
				}
				if got := s.state(); got != strings.Replace(ours, "isolated", "member", 1) || len(s.journal.Entries()) != 1 {
					t.Errorf("in use: %s, on record %v", got, s.journal.Entries())
				}
			}
			tt.leave(s)
			if said := apply.Compare(s.kinds(), s.journal.Entries())[0]; said.Outcome != apply.OutcomeRestored || said.Err != nil {
				t.Errorf("a dry run: %s, %v", said.Outcome, said.Err)
			}
			r := s.applier(nil).Restore(nil, false)[0]
			if got := s.state(); r.Outcome != apply.OutcomeRestored || got != tt.after || len(s.journal.Entries()) > 0 {
				t.Errorf("empty: %+v: %s", r, got)
			}
		})
	}
}

// TestSliceWithoutCPUs: a slice of Berth's that runs without CPUs, as between the two writes of a second apply, is
// stopped by a rollback.
func TestSliceWithoutCPUs(t *testing.T) {
	s := newStarter(t)
	if err := become(s.applier(nil)); err != nil {
		t.Fatal(err)
	}
	s.units[fast]["AllowedCPUs"] = []byte{}
	s.write("sys/fs/cgroup/"+fast+"/cpuset.cpus.partition", "member")
	r := s.applier(nil).Restore(nil, false)[0]
	if got := s.state(); r.Outcome != apply.OutcomeRestored || got != "absent" || len(s.journal.Entries()) > 0 {
		t.Errorf("%+v: %s", r, got)
	}
}

// TestSliceOfOthers: a slice that has a unit file, or that another program started, stays as it is. So does a slice
// that another program changed, or stopped, since the apply.
func TestSliceOfOthers(t *testing.T) {
	for name, properties := range map[string]map[string]any{
		"a unit file":     {"FragmentPath": "/etc/systemd/system/" + fast},
		"another program": {"FragmentPath": "/run/systemd/transient/" + fast, "Transient": true, "Description": "mine"},
	} {
		s := newStarter(t)
		s.run(fast, properties)
		before := s.state()
		if err := become(s.applier(nil)); !errors.Is(err, cgroupfile.ErrForeign) {
			t.Errorf("%s: %v", name, err)
		}
		if got := s.state(); got != before || len(s.journal.Entries()) > 0 {
			t.Errorf("%s: %s, before %s", name, got, before)
		}
	}
	for name, tt := range map[string]struct {
		change func(*starter)
		want   apply.Outcome
		state  string
	}{
		"stopped":                           {func(s *starter) { _, _ = s.StopUnitContext(t.Context(), fast, "fail", make(chan string, 1)) }, apply.OutcomeAlready, "absent"},
		"stopped, and started by a service": {func(s *starter) { s.run(fast, nil) }, apply.OutcomeAlready, `false, systemd , kernel "" member`},
		"with other CPUs": {func(s *starter) {
			s.units[fast]["AllowedCPUs"] = []byte{2}
			s.apply(fast, true, false)
		}, apply.OutcomeDrifted, `true, systemd 1, kernel "1" isolated`},
	} {
		s := newStarter(t)
		if err := become(s.applier(nil)); err != nil {
			t.Fatal(err)
		}
		tt.change(s)
		r := s.applier(nil).Restore(nil, false)[0]
		if got := s.state(); r.Outcome != tt.want || got != tt.state {
			t.Errorf("%s: %+v, %s", name, r, got)
		}
	}
}

// TestSliceFails: a partition that the kernel does not make, and a slice that systemd does not start, are errors, and
// an undo restores all.
func TestSliceFails(t *testing.T) {
	for name, tt := range map[string]struct {
		result string
		step   func(*starter)
		want   error
	}{
		"the kernel makes no partition": {"done", func(s *starter) {
			if s.read(fast+"/cpuset.cpus.partition") == "isolated" {
				s.write("sys/fs/cgroup/"+fast+"/cpuset.cpus.partition", "isolated invalid (no CPU left)")
			}
		}, apply.ErrNotEffective},
		"the kernel gives it other CPUs": {"done", func(s *starter) {
			s.write("sys/fs/cgroup/"+fast+"/cpuset.cpus.effective", "2")
		}, apply.ErrNotEffective},
		"systemd starts no slice": {"failed", func(*starter) {}, ErrJob},
	} {
		s := newStarter(t)
		s.result = tt.result
		err := become(s.applier(func(step apply.Step, _ plan.Target) {
			if step == apply.StepWritten {
				tt.step(s)
			}
		}))
		if !errors.Is(err, tt.want) {
			t.Errorf("%s: %v", name, err)
		}
		r := s.applier(nil).Restore(nil, false)[0]
		if got := s.state(); r.Err != nil || got != "absent" || len(s.journal.Entries()) > 0 {
			t.Errorf("%s: %+v, %s", name, r, got)
		}
	}
}

// TestSliceWithoutSystemd: nothing but systemd can start a slice.
func TestSliceWithoutSystemd(t *testing.T) {
	s := newStarter(t)
	for name, units := range map[string]cgroupfile.Units{"none": nil, "later": NewLater(New())} {
		a := apply.New(cgroupfile.Kinds(s.host, units), s.journal, apply.Options{})
		if err := become(a); !errors.Is(err, cgroupfile.ErrNoUnits) {
			t.Errorf("%s: %v", name, err)
		}
	}
	conn := New()
	conn.dial = func() (bus, error) { return s.reloader, nil }
	if err := conn.StopSlice(fast); !errors.Is(err, cgroupfile.ErrNoUnits) {
		t.Error(err)
	}
	if d := cmp.Diff([]string{}, glob(t, s.Path("sys/fs/cgroup/berth*"))); d != "" {
		t.Error(d)
	}
}

func glob(t *testing.T, pattern string) []string {
	t.Helper()
	names, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	return append([]string{}, names...)
}
