package tuner_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/berth-project/berth/internal/capability/tune"
	"github.com/berth-project/berth/internal/capability/tune/tuner"
	"github.com/berth-project/berth/internal/engine/apply"
	"github.com/berth-project/berth/internal/engine/driver"
	"github.com/berth-project/berth/internal/engine/driver/cgroupfile"
	"github.com/berth-project/berth/internal/engine/driver/hostfile"
	"github.com/berth-project/berth/internal/engine/journal"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/internal/linux/knob"
	"github.com/berth-project/berth/test/chance"
	"github.com/berth-project/berth/test/patience"
	"github.com/berth-project/berth/test/plain"
)

const (
	boot      = "11111111-2222-3333-4444-555555555555"
	slice     = "/sys/kernel/debug/sched/base_slice_ns"
	scaling   = "/sys/kernel/debug/sched/tunable_scaling"
	autogroup = "/proc/sys/kernel/sched_autogroup_enabled"
	interval  = "/proc/sys/vm/stat_interval"
	latency   = "/sys/devices/system/cpu/cpu0/power/pm_qos_resume_latency_us"
	governor  = "/sys/devices/system/cpu/cpufreq/policy0/scaling_governor"
	epp       = "/sys/devices/system/cpu/cpufreq/policy0/energy_performance_preference"
	workqueue = "/sys/devices/virtual/workqueue/cpumask"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// host is a directory with a tree of kernel files, and a clock.
type host struct {
	t        testing.TB
	plain    *plain.Host
	root     *hostfs.Root
	state    string
	boot     string
	boottime time.Duration
	step     func(string)
	keep     func(tuner.Applied) error
	kept     []time.Duration
	clock    time.Time    // the wall clock
	groups   *cgroup.Host // of units
	units    cgroupfile.Units
	generate func(string) error
	kernel   tuner.Kernel
	makes    func(step string) // what the kernel makes of a write, also of a command that is killed right after it
}

func newHost(t testing.TB) *host {
	t.Helper()
	h := &host{t: t, plain: plain.New(t), boot: boot, boottime: time.Hour, clock: time.Unix(1e9, 0)}
	h.state = filepath.Join(t.TempDir(), "tune")
	for file, text := range map[string]string{
		slice: "2800000", scaling: "1", autogroup: "1", interval: "1", latency: "0",
		governor: "schedutil", epp: "balance_performance", workqueue: "f",
	} {
		h.write(file, text)
	}
	h.root = h.plain.Root()
	h.keep = func(a tuner.Applied) error { h.kept = append(h.kept, a.Deadline); return nil }
	return h
}

func (h *host) write(file, text string) { h.plain.Write(file, text) }

// files returns the content of every file.
func (h *host) files() map[string]string {
	h.t.Helper()
	all := map[string]string{}
	must(h.t, filepath.WalkDir(h.plain.Dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(name)
		all[strings.TrimPrefix(name, h.plain.Dir)] = string(text)
		return err
	}))
	return all
}

func (h *host) host() tuner.Host {
	return tuner.Host{
		Dir: h.state, AgentDir: filepath.Dir(h.state), Root: h.root, Kernel: h.kernel, Boot: h.boot,
		Now: func() time.Time { return h.clock }, Boottime: func() time.Duration { return h.boottime },
		Keep: h.keep, Step: h.step, Groups: h.groups, Units: h.units, Generate: h.generate,
	}
}

// unlocked opens a directory whose lock another process may hold for a moment: a keeper, or the child of a test that
// runs at the same time. Between fork and exec a child has all open files.
func unlocked(t testing.TB, h tuner.Host) *tuner.Tuner {
	t.Helper()
	var u *tuner.Tuner
	must(t, patience.Until(t.Context(), 10*time.Millisecond, func() string {
		var err error
		u, err = tuner.Open(h)
		if errors.Is(err, journal.ErrLocked) {
			return err.Error()
		}
		must(t, err)
		return ""
	}))
	return u
}

// tuner opens the tuner as the next command does.
func (h *host) tuner() *tuner.Tuner {
	h.t.Helper()
	return unlocked(h.t, h.host())
}

// do runs f as one command.
func (h *host) do(f func(*tuner.Tuner)) {
	h.t.Helper()
	u := h.tuner()
	f(u)
	must(h.t, u.Close())
}

// setting returns one setting as a plan contains it.
func setting(file, text string) tune.Setting {
	name, phase := "sysctl."+strings.ReplaceAll(strings.TrimPrefix(file, "/proc/sys/"), "/", "."), knob.PhaseAt(file)
	if k, _, known := knob.At(file); known {
		name = k.Name
	}
	return tune.Setting{Knob: name, File: file, Want: text, Write: text, Support: knob.Settable, Phase: phase}
}

// order returns an order for files and values, sorted as a plan is.
func order(confirm time.Duration, values map[string]string) tuner.Order {
	o := tuner.Order{Confirm: confirm}
	o.Profile.Name = "test"
	for _, file := range slices.Sorted(maps.Keys(values)) {
		o.Settings = append(o.Settings, setting(file, values[file]))
	}
	slices.SortStableFunc(o.Settings, func(a, b tune.Setting) int { return int(a.Phase - b.Phase) })
	return o
}

const confirm = 2 * time.Minute

func some() map[string]string {
	return map[string]string{slice: "6000000", autogroup: "0", governor: "performance", epp: "performance", workqueue: "3", interval: "1"}
}

// outcomes returns the outcomes of an undo by file.
func outcomes(all []apply.Restored) map[string]apply.Outcome {
	by := map[string]apply.Outcome{}
	for _, r := range all {
		by[r.Entry.Target.Object+"/"+r.Entry.Target.Knob] = r.Outcome
	}
	return by
}

// TestApplyCommitRollback: a value that is already in effect is not written, a second apply writes nothing, and a
// rollback restores every byte.
func TestApplyCommitRollback(t *testing.T) {
	h := newHost(t)
	before := h.files()
	h.do(func(u *tuner.Tuner) {
		r, err := u.Apply(order(confirm, some()))
		if err != nil || r.Writes != 5 {
			t.Fatalf("%+v, %v", r, err)
		}
	})
	after := h.files()
	for file, want := range some() {
		if after[file] != want {
			t.Errorf("%s is %q, want %q", file, after[file], want)
		}
	}
	if !slices.Equal(h.kept, []time.Duration{h.boottime + confirm}) {
		t.Errorf("kept: %v", h.kept)
	}
	h.do(func(u *tuner.Tuner) { must(t, u.Commit()) })
	h.boottime += time.Hour
	h.do(func(u *tuner.Tuner) {
		r, err := u.Apply(order(confirm, some()))
		if a, is := u.Applied(); err != nil || r.Writes != 0 || !is || a.Phase != tuner.Committed {
			t.Errorf("a second apply: %+v, %v; %+v", r, err, a)
		}
		if _, err := u.Apply(order(confirm, map[string]string{autogroup: "0"})); !errors.Is(err, tuner.ErrApplied) {
			t.Errorf("another profile over it: %v", err)
		}
	})
	h.do(func(u *tuner.Tuner) {
		for file, o := range outcomes(u.Rollback()) {
			if o != apply.OutcomeRestored {
				t.Errorf("%s: %s", file, o)
			}
		}
	})
	if d := cmp.Diff(before, h.files()); d != "" {
		t.Error(d)
	}
	if _, is, err := tuner.Load(h.state); is || err != nil {
		t.Errorf("a record is left: %v", err)
	}
}

// TestDeadline: the first command after the deadline undoes an uncommitted profile, independent of the wall clock. A
// commit is then too late.
func TestDeadline(t *testing.T) {
	h := newHost(t)
	before := h.files()
	h.do(func(u *tuner.Tuner) { _, err := u.Apply(order(confirm, some())); must(t, err) })
	h.boottime += confirm - 1
	h.clock = h.clock.AddDate(20, 0, 0)
	h.do(func(u *tuner.Tuner) {
		if a, is := u.Applied(); !is || a.Phase != tuner.Trial {
			t.Errorf("undone before its time: %+v", a)
		}
	})
	h.boottime++
	h.clock = time.Unix(1, 0) // set back to long before the apply
	h.do(func(u *tuner.Tuner) {
		if err := u.Commit(); !errors.Is(err, tuner.ErrNotApplied) || len(u.Notes()) != 1 {
			t.Errorf("commit: %v, notes %q", err, u.Notes())
		}
	})
	if d := cmp.Diff(before, h.files()); d != "" {
		t.Error(d)
	}
}

// TestThreadsAreAwaitedLast: an undo writes settings that wait for a kernel thread after all others, whose phases come
// before theirs and after.
func TestThreadsAreAwaitedLast(t *testing.T) {
	h := newHost(t)
	const huge = "/sys/kernel/mm/transparent_hugepage/enabled"
	h.write(huge, "never")
	h.do(func(u *tuner.Tuner) {
		_, err := u.Apply(order(confirm, map[string]string{huge: "always", workqueue: "3", slice: "6000000", autogroup: "0", governor: "performance"}))
		must(t, err)
	})
	var went []string
	h.step = func(s string) {
		if file, is := strings.CutPrefix(s, string(apply.StepRestored)+": "); is {
			went = append(went, file)
		}
	}
	h.do(func(u *tuner.Tuner) { u.Rollback() })
	if n := len(went); n != 5 || !strings.HasSuffix(went[n-1], "cpumask") && !strings.HasSuffix(went[n-2], "cpumask") ||
		!strings.HasSuffix(went[n-1], "enabled") && !strings.HasSuffix(went[n-2], "enabled") {
		t.Errorf("restored %q", went)
	}
}

// TestFirstFailureUndoesAll: a missing file, a file that another program changed during the apply, or a full disk
// undoes the whole apply.
func TestFirstFailureUndoesAll(t *testing.T) {
	for name, tt := range map[string]struct {
		fault func(h *host, step string)
		want  error
	}{
		"gone": {func(h *host, step string) {
			if strings.Contains(step, "value was read back") && strings.Contains(step, "cpumask") {
				must(t, os.Remove(h.plain.Path(autogroup)))
			}
		}, apply.ErrGone},
		"changed": {func(h *host, step string) {
			if strings.Contains(step, "value was read back") && strings.Contains(step, "cpumask") {
				h.write(autogroup, "7")
			}
		}, apply.ErrChanged},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			before := h.files()
			h.step = func(s string) { tt.fault(h, s) }
			h.do(func(u *tuner.Tuner) {
				_, err := u.Apply(order(confirm, some()))
				if !errors.Is(err, tuner.ErrUndone) || !errors.Is(err, tt.want) {
					t.Errorf("%v, want %v", err, tt.want)
				}
			})
			after := h.files()
			for _, file := range []string{slice, governor, epp, workqueue} {
				if after[file] != before[file] {
					t.Errorf("%s is %q, want %q", file, after[file], before[file])
				}
			}
		})
	}
}

// TestHotplug: a CPU that disappears between plan and apply leaves the host unchanged and without a record. The setting
// of a CPU that disappears later goes with it. The CPU returns with the kernel's default, which an undo leaves alone.
func TestHotplug(t *testing.T) {
	h := newHost(t)
	whole := h.files()
	absent := func(files map[string]string) map[string]string {
		files = maps.Clone(files)
		delete(files, latency)
		return files
	}
	desired := order(confirm, map[string]string{latency: "20", autogroup: "0"})
	must(t, os.Remove(h.plain.Path(latency)))
	h.do(func(u *tuner.Tuner) {
		if r, err := u.Apply(desired); !errors.Is(err, apply.ErrGone) || r.Writes != 0 {
			t.Errorf("%+v, %v", r, err)
		}
		if _, is := u.Applied(); is {
			t.Error("there is a record of what was not applied")
		}
	})
	if d := cmp.Diff(absent(whole), h.files()); d != "" {
		t.Errorf("refused (-before +after):\n%s", d)
	}
	h.write(latency, whole[latency])
	h.do(func(u *tuner.Tuner) { _, err := u.Apply(desired); must(t, err) })
	must(t, os.RemoveAll(h.plain.Path(filepath.Dir(latency))))
	a, _, err := tuner.Load(h.state)
	must(t, err)
	for _, row := range a.Verify(h.root.FS(), h.kernel, nil) {
		if row.File == latency && row.State != tune.Gone {
			t.Errorf("%s is %s", row.File, row.State)
		}
	}
	h.do(func(u *tuner.Tuner) {
		for _, r := range u.Rollback() {
			if r.Err != nil {
				t.Errorf("%+v", r)
			}
		}
	})
	if d := cmp.Diff(absent(whole), h.files()); d != "" {
		t.Errorf("rolled back (-before +after):\n%s", d)
	}
	if _, is, err := tuner.Load(h.state); is || err != nil {
		t.Errorf("a record is left: %v", err)
	}
}

// TestDormantOriginal: an original that waits for an offline CPU blocks neither the rollback nor another profile. It is
// restored once the CPU is online.
func TestDormantOriginal(t *testing.T) {
	const interrupt, online = "/proc/irq/4/smp_affinity_list", "/sys/devices/system/cpu/online"
	h := newHost(t)
	h.write(interrupt, "2")
	h.write(online, "0-3")
	before := h.files()
	h.do(func(u *tuner.Tuner) {
		_, err := u.Apply(order(confirm, map[string]string{interrupt: "0-1", autogroup: "0"}))
		must(t, err)
		must(t, u.Commit())
	})
	h.write(online, "0-1")
	rollback := func() {
		h.do(func(u *tuner.Tuner) {
			if all := outcomes(u.Rollback()); all["irq 4/smp_affinity_list"] != apply.OutcomeDormant {
				t.Errorf("%v", all)
			}
			if _, is := u.Applied(); is || len(u.Notes()) != 1 || !strings.Contains(u.Notes()[0], "irq 4") {
				t.Errorf("a record: %t; notes %q", is, u.Notes())
			}
		})
		if now := h.files(); now[interrupt] != "0-1" || now[autogroup] != "1" {
			t.Errorf("the interrupt has %s, autogroup %s", now[interrupt], now[autogroup])
		}
	}
	rollback()
	h.do(func(u *tuner.Tuner) {
		r, err := u.Apply(order(confirm, map[string]string{interrupt: "3", autogroup: "0"}))
		if err != nil || r.Writes != 1 || len(r.Left) != 1 || !strings.Contains(r.Left[0].Why, "offline") {
			t.Errorf("%+v, %v", r, err)
		}
	})
	rollback()
	h.write(online, "0-3")
	must(t, h.tuner().Close())
	if d := cmp.Diff(before, h.files()); d != "" {
		t.Error(d)
	}
	if s, err := journal.Load(h.state, driver.Values()); err != nil || len(s.Entries) > 0 {
		t.Errorf("left on record: %v, %v", s.Entries, err)
	}
}

// TestDormantBesideAnotherProfile: an original that waited for its CPUs is restored by the first command after they are
// online, and reported once. Another profile that was applied in between keeps its values.
func TestDormantBesideAnotherProfile(t *testing.T) {
	const interrupt, online = "/proc/irq/4/smp_affinity_list", "/sys/devices/system/cpu/online"
	h := newHost(t)
	h.write(interrupt, "2")
	h.write(online, "0-3")
	before := h.files()
	h.do(func(u *tuner.Tuner) {
		_, err := u.Apply(order(0, map[string]string{interrupt: "0-1", autogroup: "0"}))
		must(t, err)
	})
	h.write(online, "0-1")
	h.do(func(u *tuner.Tuner) { u.Rollback() })
	other := order(0, map[string]string{governor: "performance"})
	other.Profile.Name = "other"
	h.do(func(u *tuner.Tuner) { _, err := u.Apply(other); must(t, err) })
	for i, step := range []struct{ online, interrupt, note string }{{"0-1", "0-1", ""}, {"0-2", "2", "irq 4"}, {"0-2", "2", ""}} {
		h.write(online, step.online)
		h.do(func(u *tuner.Tuner) {
			a, _ := u.Applied()
			if notes := strings.Join(u.Notes(), "; "); a.Profile.Name != "other" || (notes != "") != (step.note != "") || !strings.Contains(notes, step.note) {
				t.Errorf("%d: profile %q, notes %q", i, a.Profile.Name, notes)
			}
		})
		if now := h.files(); now[interrupt] != step.interrupt || now[governor] != "performance" {
			t.Errorf("%d: the interrupt has %s, the governor is %s", i, now[interrupt], now[governor])
		}
	}
	h.do(func(u *tuner.Tuner) { u.Rollback() })
	h.write(online, "0-3")
	if d := cmp.Diff(before, h.files()); d != "" {
		t.Error(d)
	}
}

// TestAsleepSincePlan: a setting whose CPUs went offline between plan and apply is left and reported. The next apply of
// the profile writes it once the CPUs are online.
func TestAsleepSincePlan(t *testing.T) {
	const policy, cpus = "/sys/devices/system/cpu/cpufreq/policy1/scaling_governor", "/sys/devices/system/cpu/cpufreq/policy1/affected_cpus"
	const interrupt, online = "/proc/irq/4/smp_affinity_list", "/sys/devices/system/cpu/online"
	for file, value := range map[string]string{policy: "performance", interrupt: "3"} {
		for _, with := range []map[string]string{{file: value}, {file: value, autogroup: "0"}} {
			t.Run(fmt.Sprintf("%s of %d", filepath.Base(file), len(with)), func(t *testing.T) {
				h := newHost(t)
				h.write(policy, "schedutil")
				h.write(interrupt, "0")
				asleep, awake := map[string]string{cpus: "", online: "0-2"}, map[string]string{cpus: "1", online: "0-3"}
				for i, step := range []struct {
					files                map[string]string
					left, writes, stands int
				}{{asleep, 1, len(with) - 1, 0}, {asleep, 1, 0, 0}, {awake, 0, 1, 1}, {awake, 0, 0, 1}} {
					for file, text := range step.files {
						h.write(file, text)
					}
					h.do(func(u *tuner.Tuner) {
						r, err := u.Apply(order(0, with))
						if err != nil || len(r.Left) != step.left || r.Writes != step.writes {
							t.Errorf("%d: %+v, %v", i, r, err)
						}
						for _, s := range r.Left {
							if s.File != file || !strings.Contains(s.Why, "offline") {
								t.Errorf("%d: left: %+v", i, s)
							}
						}
						if a, _ := u.Applied(); len(a.Settings) != len(with)-step.left || len(a.Dormant) != step.left || len(a.Left) > 0 {
							t.Errorf("%d: on record: %+v", i, a)
						}
						if step.left > 0 {
							h.verify(u, file, "", tune.Dormant)
						}
					})
					if stands := h.files()[file] == value; stands != (step.stands > 0) {
						t.Errorf("%d: %s is %s", i, file, h.files()[file])
					}
				}
			})
		}
	}
}

// TestPolicyComesBack: a profile that was applied while a CPU was offline can be applied again for that CPU's policy
// once it is online. That works without a rollback, also while another CPU is offline.
func TestPolicyComesBack(t *testing.T) {
	const other, cpus = "/sys/devices/system/cpu/cpufreq/policy1/scaling_governor", "/sys/devices/system/cpu/cpufreq/policy1/affected_cpus"
	h := newHost(t)
	h.write(other, "schedutil")
	h.write(cpus, "1")
	before := h.files()
	one := map[string]string{governor: "performance"}
	both := map[string]string{governor: "performance", other: "performance"}
	for i, step := range []struct {
		cpus     string
		settings map[string]string
		writes   int
	}{{"", one, 1}, {"1", both, 1}, {"", one, 0}, {"1", both, 0}} {
		h.write(cpus, step.cpus)
		h.do(func(*tuner.Tuner) {}) // restores nothing of the profile
		h.do(func(u *tuner.Tuner) {
			if r, err := u.Apply(order(0, step.settings)); err != nil || r.Writes != step.writes {
				t.Errorf("%d: %+v, %v", i, r, err)
			}
			if i == 2 { // the profile still has the setting
				h.verify(u, other, "", tune.Dormant)
			}
		})
	}
	h.do(func(u *tuner.Tuner) {
		if _, err := u.Apply(order(0, map[string]string{governor: "powersave", other: "powersave"})); !errors.Is(err, tuner.ErrApplied) {
			t.Errorf("another value: %v", err)
		}
		u.Rollback()
	})
	if d := cmp.Diff(before, h.files()); d != "" {
		t.Error(d)
	}
}

// TestManagedInterrupt: an interrupt that the kernel manages itself is left and reported. A second apply does not try
// it again.
func TestManagedInterrupt(t *testing.T) {
	const moved, managed = "/proc/irq/4/smp_affinity_list", "/proc/irq/5/smp_affinity_list"
	h := newHost(t)
	h.write(moved, "0-3")
	h.write(managed, "0-3")
	must(t, os.Chmod(h.plain.Path(managed), 0o444))
	before := h.files()
	o := order(confirm, map[string]string{moved: "0", managed: "0", slice: "6000000"})
	h.do(func(u *tuner.Tuner) {
		r, err := u.Apply(o)
		if err != nil || r.Writes != 2 || len(r.Left) != 1 || r.Left[0].File != managed || !strings.Contains(r.Left[0].Why, "isolcpus=managed_irq") {
			t.Errorf("%+v, %v", r, err)
		}
		must(t, u.Commit())
	})
	h.do(func(u *tuner.Tuner) {
		r, err := u.Apply(o)
		if a, _ := u.Applied(); err != nil || r.Writes != 0 || a.Phase != tuner.Committed || len(a.Settings) != 2 {
			t.Errorf("again: %+v, %v; %+v", r, err, a)
		}
		u.Rollback()
	})
	if d := cmp.Diff(before, h.files()); d != "" {
		t.Error(d)
	}
}

// TestNothingKeepsTheDeadline: without a keeper of the deadline nothing is written.
func TestNothingKeepsTheDeadline(t *testing.T) {
	h := newHost(t)
	before := h.files()
	h.keep = func(tuner.Applied) error { return errors.New("no process") }
	h.do(func(u *tuner.Tuner) {
		if _, err := u.Apply(order(confirm, some())); !errors.Is(err, tuner.ErrKeeper) {
			t.Error(err)
		}
	})
	if d := cmp.Diff(before, h.files()); d != "" {
		t.Error(d)
	}
	if _, is, _ := tuner.Load(h.state); is {
		t.Error("a record is left")
	}
}

// TestAnotherWritersValueStays: another program's value is reported, its original stays in the journal, and no profile
// is applied over it. The undo is complete once the file has the original value again.
func TestAnotherWritersValueStays(t *testing.T) {
	h := newHost(t)
	before := h.files()
	h.do(func(u *tuner.Tuner) { _, err := u.Apply(order(confirm, some())); must(t, err) })
	h.write(autogroup, "9")
	h.do(func(u *tuner.Tuner) {
		if o := outcomes(u.Rollback())[autogroup]; o != apply.OutcomeDrifted {
			t.Errorf("outcome %s", o)
		}
		if _, err := u.Apply(order(confirm, some())); !errors.Is(err, tuner.ErrLeft) {
			t.Errorf("apply over what is left: %v", err)
		}
		if err := u.Commit(); !errors.Is(err, tuner.ErrLeft) {
			t.Errorf("commit of what is left: %v", err)
		}
	})
	if h.files()[autogroup] != "9" {
		t.Error("the other program's value was overwritten")
	}
	h.write(autogroup, before[autogroup])
	h.do(func(*tuner.Tuner) {})
	if d := cmp.Diff(before, h.files()); d != "" {
		t.Error(d)
	}
	if _, is, _ := tuner.Load(h.state); is {
		t.Error("a record is left")
	}
}

// TestAgentsTargets: if the agent's journal holds a target of the profile, nothing of the profile is written. After a
// boot the rest of the profile is written.
func TestAgentsTargets(t *testing.T) {
	h := newHost(t)
	j, err := journal.Open(filepath.Dir(h.state), boot, driver.Values())
	must(t, err)
	at, err := hostfile.Target(autogroup)
	must(t, err)
	must(t, j.Begin(journal.Entry{Target: at, ID: "x", Original: "1", Owner: "place", Workload: "w"}))
	must(t, j.Close())
	before := h.files()
	h.do(func(u *tuner.Tuner) {
		if r, err := u.Apply(order(confirm, some())); !errors.Is(err, tuner.ErrHeld) || r.Writes != 0 {
			t.Errorf("%+v, %v", r, err)
		}
	})
	h.do(func(u *tuner.Tuner) {
		o := order(0, some())
		o.Again = true
		r, err := u.Apply(o)
		if err != nil || r.Writes == 0 || len(r.Left) != 1 || !strings.Contains(r.Left[0].Why, `for workload "w"`) {
			t.Errorf("after a boot: %+v, %v", r, err)
		}
		if record, is := u.Applied(); !is || len(record.Dormant) != 1 || record.Phase != tuner.Committed {
			t.Errorf("on record after a boot: %+v, %v", record, is)
		}
	})
	if now := h.files()[autogroup]; now != before[autogroup] {
		t.Errorf("%s is %q, and was %q", autogroup, now, before[autogroup])
	}
}

// TestAgentRecordsMeanwhile: the agent can record a target between the check and the record of an apply. The tuner does
// not write that target and removes it from its own record.
func TestAgentRecordsMeanwhile(t *testing.T) {
	h := newHost(t)
	before := h.files()
	agent, err := journal.Open(filepath.Dir(h.state), boot, driver.Values())
	must(t, err)
	defer func() { must(t, agent.Close()) }()
	at, err := hostfile.Target(autogroup)
	must(t, err)
	h.step = func(step string) {
		if step == "the deadline is kept" {
			must(t, agent.Begin(journal.Entry{Target: at, ID: "x", Original: "1", Owner: "place", Workload: "w"}))
		}
	}
	h.do(func(u *tuner.Tuner) {
		r, err := u.Apply(order(confirm, some()))
		if !errors.Is(err, tuner.ErrHeld) || errors.Is(err, apply.ErrJournal) || r.Writes != 0 {
			t.Errorf("%+v, %v", r, err)
		}
		if _, is := u.Applied(); is {
			t.Error("a record is left")
		}
	})
	if d := cmp.Diff(before, h.files()); d != "" {
		t.Error(d)
	}
	if s, err := journal.Load(h.state, driver.Values()); err != nil || len(s.Entries) > 0 {
		t.Errorf("left on record: %v, %v", s.Entries, err)
	}
}

// TestAfterABoot: a trial of another boot is forgotten. A committed profile is remembered and can be applied again.
func TestAfterABoot(t *testing.T) {
	for _, commit := range []bool{false, true} {
		t.Run(fmt.Sprint("commit ", commit), func(t *testing.T) {
			h := newHost(t)
			before := h.files()
			h.do(func(u *tuner.Tuner) {
				_, err := u.Apply(order(confirm, some()))
				must(t, err)
				if commit {
					must(t, u.Commit())
				}
			})
			for file, text := range before {
				h.write(file, text)
			}
			h.boot, h.boottime = "another", time.Minute
			h.do(func(u *tuner.Tuner) {
				a, is := u.Applied()
				if is != commit || is && a.Stands(h.boot) {
					t.Errorf("%v: %+v", is, a)
				}
				if r := u.Rollback(); commit == false && len(r) > 0 {
					t.Errorf("%+v", r)
				}
			})
			h.do(func(u *tuner.Tuner) {
				r, err := u.Apply(order(0, some()))
				if a, is := u.Applied(); err != nil || r.Writes != 5 || !is || a.Phase != tuner.Committed {
					t.Errorf("%+v, %v", r, err)
				}
			})
		})
	}
}

// TestHeld: a profile that is applied for a measurement cannot be committed. It is undone at once when its process is
// gone. The profile that was committed in an earlier boot is on record afterwards.
func TestHeld(t *testing.T) {
	h := newHost(t)
	h.do(func(u *tuner.Tuner) {
		_, err := u.Apply(order(0, map[string]string{autogroup: "0"}))
		must(t, err)
	})
	h.write(autogroup, "1")
	h.boot = "another"
	before := h.files()
	o := order(time.Second, some())
	o.Profile.Name, o.Held = "measured", true
	for _, dies := range []bool{false, true} {
		u := h.tuner()
		r, err := u.Apply(o)
		if err != nil || r.Writes != 5 || h.files()[governor] != "performance" {
			t.Fatalf("%+v, %v", r, err)
		}
		if err := u.Commit(); !errors.Is(err, tuner.ErrLeft) {
			t.Errorf("commit: %v", err)
		}
		if !dies {
			u.Undo()
		}
		must(t, u.Close()) // releases the lock, as the kernel does
		h.do(func(u *tuner.Tuner) {
			if a, is := u.Applied(); !is || a.Profile.Name != "test" || a.Phase != tuner.Committed {
				t.Errorf("on record: %+v", a)
			}
		})
		if d := cmp.Diff(before, h.files()); d != "" {
			t.Errorf("dies %v:\n%s", dies, d)
		}
	}
}

// killed is the panic value that stands for a SIGKILL of this process.
type killed struct{}

// command runs f as a command that dies at a step, 0 for never, and reports whether it died.
func (h *host) command(fatal int, f func(*tuner.Tuner)) (died bool) {
	h.t.Helper()
	n := 0
	h.step = func(step string) {
		if h.makes != nil {
			h.makes(step)
		}
		if n++; n == fatal {
			panic(killed{})
		}
	}
	var u *tuner.Tuner
	defer func() {
		h.step = nil
		if r := recover(); r != nil {
			if _, is := r.(killed); !is {
				panic(r)
			}
			died = true
		}
		if u != nil {
			must(h.t, u.Close()) // releases the lock, as the kernel does
		}
	}()
	u = h.tuner()
	f(u)
	return false
}

// TestRandomApplyKillRollback: a rollback restores every byte after any history of applies, commits and rollbacks, each
// of which may be killed between any two steps.
func TestRandomApplyKillRollback(t *testing.T) {
	t.Parallel() // it waits for the disk
	histories := 200
	if testing.Short() {
		histories = 60
	}
	if text := os.Getenv("BERTH_TUNE_HISTORIES"); text != "" {
		var err error
		histories, err = strconv.Atoi(text)
		must(t, err)
	}
	seed := chance.Seed()
	const parts = 4 // the parts mostly wait for the disk
	for part := range uint64(parts) {
		t.Run(fmt.Sprintf("seed %d part %d", seed, part), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(seed, part))
			for range histories / parts {
				randomHistory(t, random)
			}
		})
	}
}

// randomHistory runs one history on its own host.
func randomHistory(t *testing.T, random *rand.Rand) {
	values := map[string][]string{
		slice: {"2800000", "1500000", "6000000"}, autogroup: {"0", "1"}, interval: {"1", "2", "10"}, latency: {"0", "20", "n/a"},
		governor: {"schedutil", "performance"}, epp: {"balance_performance", "performance", "power"}, workqueue: {"f", "1", "3"},
	}
	h := newHost(t)
	before := h.files()
	for range 1 + random.IntN(6) {
		desired := map[string]string{}
		for file, offered := range values {
			if random.IntN(3) > 0 {
				desired[file] = offered[random.IntN(len(offered))]
			}
		}
		fatal := random.IntN(60)
		switch random.IntN(4) {
		case 0, 1:
			h.command(fatal, func(u *tuner.Tuner) { _, _ = u.Apply(order(confirm, desired)) })
		case 2:
			h.command(fatal, func(u *tuner.Tuner) { _ = u.Commit() })
		default:
			h.command(fatal, func(u *tuner.Tuner) { u.Rollback() })
		}
		h.boottime += time.Duration(random.IntN(int(confirm)))
	}
	h.command(0, func(u *tuner.Tuner) { u.Rollback() })
	if d := cmp.Diff(before, h.files()); d != "" {
		t.Fatalf("(-before +after):\n%s", d)
	}
	if _, is, err := tuner.Load(h.state); is || err != nil {
		t.Fatalf("a record is left, %v", err)
	}
}

// A record that cannot be removed stays, and the notes explain why.
func TestRollbackKeepsARecordThatStays(t *testing.T) {
	h := newHost(t)
	h.do(func(u *tuner.Tuner) {
		_, err := u.Apply(order(confirm, some()))
		must(t, err)
	})
	h.step = func(step string) {
		if step == "an undo is recorded" { // a directory with a file in it cannot be removed
			must(t, os.Remove(filepath.Join(h.state, "applied")))
			must(t, os.MkdirAll(filepath.Join(h.state, "applied", "x"), 0o700))
		}
	}
	h.do(func(u *tuner.Tuner) {
		for _, r := range u.Rollback() {
			if r.Err != nil {
				t.Errorf("%+v", r)
			}
		}
		if _, stays := u.Applied(); !stays || !strings.Contains(strings.Join(u.Notes(), "; "), "remove what is applied") {
			t.Errorf("on record %v, notes %q", stays, u.Notes())
		}
	})
}

// TestKilledAtEveryStep: an apply may die at any step. The next command undoes it without waiting for the deadline.
func TestKilledAtEveryStep(t *testing.T) {
	t.Parallel() // it waits for the disk
	for step := 1; ; step++ {
		h := newHost(t)
		before := h.files()
		died := h.command(step, func(u *tuner.Tuner) { _, err := u.Apply(order(confirm, some())); must(t, err) })
		if !died {
			if step < 20 {
				t.Errorf("only %d steps", step)
			}
			return
		}
		a, is, err := tuner.Load(h.state)
		must(t, err)
		h.do(func(*tuner.Tuner) {})
		if is && a.Phase == tuner.Trial {
			continue // the apply was complete
		}
		if d := cmp.Diff(before, h.files()); d != "" {
			t.Fatalf("killed at step %d (-before +after):\n%s", step, d)
		}
	}
}

// TestUndoInTheOrderThatTheKernelTakes: some values can be restored only after a later one of the journal, such as
// rt_period and rt_runtime. The same undo restores both and reports the value on one line.
func TestUndoInTheOrderThatTheKernelTakes(t *testing.T) {
	const period, runtime = "/proc/sys/kernel/sched_rt_period_us", "/proc/sys/kernel/sched_rt_runtime_us"
	h := newHost(t)
	h.write(period, "1000000")
	h.write(runtime, "950000")
	before := h.files()
	h.do(func(u *tuner.Tuner) {
		_, err := u.Apply(order(confirm, map[string]string{period: "2000000", runtime: "1900000"}))
		must(t, err)
		must(t, u.Commit())
	})
	must(t, os.Chmod(h.plain.Path(period), 0o444))
	h.step = func(step string) {
		if strings.HasPrefix(step, string(apply.StepRestoreVerified)) && strings.Contains(step, "sched_rt_runtime_us") {
			must(t, os.Chmod(h.plain.Path(period), 0o644))
		}
	}
	h.do(func(u *tuner.Tuner) {
		all := u.Rollback()
		for file, o := range outcomes(all) {
			if o != apply.OutcomeRestored {
				t.Errorf("%s: %s", file, o)
			}
		}
		if len(all) != 2 {
			t.Errorf("%d lines", len(all))
		}
	})
	if d := cmp.Diff(before, h.files()); d != "" {
		t.Error(d)
	}
	if _, is, err := tuner.Load(h.state); is || err != nil {
		t.Errorf("a record is left: %v", err)
	}
}

// verify compares the effective value and the state of a file in a verification.
func (h *host) verify(u *tuner.Tuner, file, has string, want tune.State) {
	h.t.Helper()
	originals, err := journal.Load(h.state, driver.Values())
	must(h.t, err)
	a, _ := u.Applied()
	rows := a.Verify(h.root.FS(), h.kernel, originals.Entries)
	i := slices.IndexFunc(rows, func(row tune.Verified) bool { return row.File == file })
	if i < 0 || rows[i].State != want || rows[i].Effective != has {
		h.t.Errorf("verify: %+v, want %s of %s, %s", rows, has, file, want)
	}
}

// TestPoolInPart: an apply accepts fewer huge pages if the kernel lacks memory, and another apply asks again. Another
// program's change of the pool stays, and the rollback returns the pages.
func TestPoolInPart(t *testing.T) {
	const pool = "/proc/sys/vm/nr_hugepages"
	h := newHost(t)
	h.write(pool, "0")
	before := h.files()
	made := "312"
	h.step = func(step string) {
		if strings.HasPrefix(step, string(apply.StepWritten)) && strings.Contains(step, "nr_hugepages") {
			h.write(pool, made)
		}
	}
	values := map[string]string{pool: "1024", autogroup: "0"}
	for _, made = range []string{"312", "600"} {
		h.do(func(u *tuner.Tuner) {
			r, err := u.Apply(order(0, values))
			if err != nil || len(r.Partly) != 1 || !strings.Contains(r.Partly[0].Why, "the kernel has "+made) || len(r.Left) > 0 {
				t.Fatalf("%+v, %v", r, err)
			}
			h.verify(u, pool, made, tune.Partial)
		})
	}
	h.write(pool, "400") // by another program
	h.do(func(u *tuner.Tuner) {
		h.verify(u, pool, "400", tune.Drift)
		if all := u.Rollback(); outcomes(all)[pool] != apply.OutcomeDrifted {
			t.Errorf("%+v", all)
		}
	})
	h.write(pool, "600")
	h.do(func(u *tuner.Tuner) {
		if all := u.Rollback(); outcomes(all)[pool] != apply.OutcomeRestored {
			t.Errorf("%+v", all)
		}
	})
	if d := cmp.Diff(before, h.files()); d != "" {
		t.Error(d)
	}
}

// TestPreferenceThatItsGovernorMoves: the original of the preference is its value before the governor was written, even
// if the profile desires that same value.
func TestPreferenceThatItsGovernorMoves(t *testing.T) {
	h := newHost(t)
	before := h.files()
	moved := map[string]string{"performance": "performance", "schedutil": "balance_power"}
	h.step = func(step string) {
		if (strings.HasPrefix(step, string(apply.StepWritten)) || strings.HasPrefix(step, string(apply.StepRestored))) && strings.Contains(step, "scaling_governor") {
			h.write(epp, moved[h.files()[governor]])
		}
	}
	h.do(func(u *tuner.Tuner) {
		_, err := u.Apply(order(confirm, map[string]string{governor: "performance", epp: "balance_performance"}))
		must(t, err)
		must(t, u.Commit())
	})
	if now := h.files()[epp]; now != "balance_performance" {
		t.Errorf("the preference is %s", now)
	}
	moved["schedutil"] = "balance_performance"
	h.do(func(u *tuner.Tuner) { u.Rollback() })
	if d := cmp.Diff(before, h.files()); d != "" {
		t.Error(d)
	}
}

// TestAwaitLeavesTheLockToItsHolder: a running apply looks due, but a keeper does not try the lock of a live process.
func TestAwaitLeavesTheLockToItsHolder(t *testing.T) {
	h := newHost(t)
	h.step = func(step string) {
		if step != "the originals are journaled" {
			return
		}
		h.awaitsWithoutLock()
	}
	h.do(func(u *tuner.Tuner) { _, err := u.Apply(order(confirm, some())); must(t, err) })
}

// TestAwaitLooksAtNoClock: the keeper of a comparison waits for the end of its process, through runs with and without
// the profile. Until then it reads neither the clock nor the record. Afterwards it undoes what that process left.
func TestAwaitLooksAtNoClock(t *testing.T) {
	for start, name := range []string{"started with the profile", "started without it"} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			before := h.files()
			var looks atomic.Int32
			keeper := h.host()
			keeper.Boottime = func() time.Duration { looks.Add(1); return h.boottime }
			ended := make(chan error, 1)
			u := h.tuner()
			seen := int32(0)
			for run := range 3 {
				if run%2 == 0 {
					_, err := u.Apply(measured(time.Hour))
					must(t, err)
				} else {
					u.Undo()
				}
				if run == start {
					go func() { _, err := tuner.Await(t.Context(), keeper); ended <- err }()
				}
				time.Sleep(300 * time.Millisecond) // a polling keeper would check twice in this time
				if run == start {
					seen = looks.Load()
				}
				if n := looks.Load(); n > seen || n > 3 || len(ended) > 0 {
					t.Fatalf("run %d: %d looks, %d at the start; ended: %d", run, n, seen, len(ended))
				}
			}
			must(t, u.Close())
			must(t, <-ended)
			if d := cmp.Diff(before, h.files()); d != "" {
				t.Error(d)
			}
		})
	}
}

// measured returns the order of a comparison that must end within the given time.
func measured(within time.Duration) tuner.Order {
	o := order(within, some())
	o.Held = true
	return o
}

// TestAwaitPastTheDeadlineOfAMeasurement: a comparison that its own profile starves can miss its deadline. The keeper
// then does not wait in silence.
func TestAwaitPastTheDeadlineOfAMeasurement(t *testing.T) {
	h := newHost(t)
	before := h.files()
	var looks atomic.Int32
	keeper := h.host()
	keeper.Boottime = func() time.Duration { looks.Add(1); return 2 * h.boottime }
	u := h.tuner()
	_, err := u.Apply(measured(time.Minute))
	must(t, err)
	ended := make(chan error, 1)
	go func() { _, err := tuner.Await(t.Context(), keeper); ended <- err }()
	const rounds = 10
	must(t, patience.Until(t.Context(), 10*time.Millisecond, func() string {
		if n := looks.Load(); n < rounds {
			return fmt.Sprintf("%d looks", n)
		}
		return ""
	}))
	must(t, u.Close())
	must(t, <-ended)
	if d := cmp.Diff(before, h.files()); d != "" {
		t.Error(d)
	}
}

// TestAwaitLeavesARollbackToItsUser: a user whose rollback was incomplete gives the next command. The directory stays
// unlocked for it until the deadline.
func TestAwaitLeavesARollbackToItsUser(t *testing.T) {
	h := newHost(t)
	h.do(func(u *tuner.Tuner) { _, err := u.Apply(order(confirm, some())); must(t, err) })
	must(t, os.WriteFile(h.plain.Path(slice), []byte("7\n"), 0o600))
	h.do(func(u *tuner.Tuner) { u.Rollback() })
	h.awaitsWithoutLock()
	h.boottime += confirm
	if _, err := tuner.Await(t.Context(), h.host()); !errors.Is(err, tuner.ErrLeft) {
		t.Errorf("at the deadline: %v", err)
	}
}

// awaitsWithoutLock waits for the deadline for a while and fails if anybody tries the lock in that time.
func (h *host) awaitsWithoutLock() {
	h.t.Helper()
	t := h.t
	asked, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	must(t, err)
	defer unix.Close(asked)
	_, err = unix.InotifyAddWatch(asked, filepath.Join(h.state, "lock"), unix.IN_CLOSE_WRITE)
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if _, err := tuner.Await(ctx, h.host()); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	if n, err := unix.Read(asked, make([]byte, 4096)); !errors.Is(err, unix.EAGAIN) {
		t.Errorf("it asked for the lock: %d bytes of events, %v", n, err)
	}
}

// TestDeadlineOfADamagedJournal: at the deadline the readable part of the journal is restored. The damage is reported
// and the damaged file preserved.
func TestDeadlineOfADamagedJournal(t *testing.T) {
	h := newHost(t)
	before := h.files()
	h.do(func(u *tuner.Tuner) { _, err := u.Apply(order(confirm, some())); must(t, err) })
	h.damages()
	h.boottime += confirm
	notes, err := tuner.Await(t.Context(), h.host())
	if !errors.Is(err, journal.ErrDamaged) || !strings.Contains(strings.Join(notes, "\n"), "kept as") {
		t.Errorf("%v, notes %q", err, notes)
	}
	if d := cmp.Diff(before, h.files()); d != "" {
		t.Error(d)
	}
}

// TestCommittedProfileOutlivesItsNextApply: a committed profile is applied again in the same boot and that apply is
// undone. The profile stays on record but is not in effect, as after a boot. A rollback forgets it.
func TestCommittedProfileOutlivesItsNextApply(t *testing.T) {
	again := order(confirm, map[string]string{slice: "5000000", autogroup: "0"})
	for name, tt := range map[string]struct {
		then  func(h *host)
		stays bool
	}{
		"failed": {func(h *host) {
			h.step = func(step string) {
				if step == "the originals are journaled" {
					must(t, os.Remove(h.plain.Path(autogroup)))
				}
			}
			h.do(func(u *tuner.Tuner) {
				if _, err := u.Apply(again); !errors.Is(err, tuner.ErrUndone) || errors.Is(err, tuner.ErrLeft) {
					t.Error(err)
				}
			})
		}, true},
		"not committed": {func(h *host) {
			h.do(func(u *tuner.Tuner) { _, err := u.Apply(again); must(t, err) })
			h.boottime += confirm
			_, err := tuner.Await(t.Context(), h.host())
			must(t, err)
		}, true},
		"another boot": {func(h *host) {
			h.do(func(u *tuner.Tuner) { _, err := u.Apply(again); must(t, err) })
			h.boot = "another"
			h.do(func(*tuner.Tuner) {})
		}, true},
		"rolled back": {func(h *host) {
			h.do(func(u *tuner.Tuner) { _, err := u.Apply(again); must(t, err); u.Rollback() })
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			h.do(func(u *tuner.Tuner) {
				_, err := u.Apply(order(0, map[string]string{slice: "5000000", autogroup: "0"}))
				must(t, err)
			})
			want, _, err := tuner.Load(h.state)
			must(t, err)
			h.write(autogroup, "1") // as a restart of a unit or an onlined CPU does
			tt.then(h)
			got, is, err := tuner.Load(h.state)
			must(t, err)
			if want.Boot = ""; is != tt.stays || is && !cmp.Equal(want, got) || got.Stands(h.boot) || got.IsUndone() != is {
				t.Fatalf("a record: %v, %s", is, cmp.Diff(want, got))
			}
			if h.files()[slice] != "2800000" && h.boot == boot {
				t.Errorf("the slice is %s", h.files()[slice])
			}
			h.step = nil
			h.write(autogroup, "1")
			h.do(func(u *tuner.Tuner) {
				_, err := u.Apply(order(0, map[string]string{slice: "5000000", autogroup: "0"}))
				must(t, err)
			})
			if now, _, err := tuner.Load(h.state); err != nil || !now.Stands(h.boot) || now.Phase != tuner.Committed || now.Former != nil {
				t.Errorf("applied again it is %+v, %v", now, err)
			}
		})
	}
}

// TestCommittedProfileOutlivesWhatFails: a profile that was committed in an earlier boot is remembered until another
// profile is committed or the profile is rolled back.
func TestCommittedProfileOutlivesWhatFails(t *testing.T) {
	other := map[string]string{slice: "5000000", autogroup: "0"}
	for name, tt := range map[string]struct {
		then   func(h *host)
		former bool
	}{
		"failed": {func(h *host) {
			h.step = func(step string) {
				if step == "the originals are journaled" {
					must(t, os.Remove(h.plain.Path(autogroup)))
				}
			}
			h.do(func(u *tuner.Tuner) {
				if _, err := u.Apply(order(confirm, other)); !errors.Is(err, tuner.ErrUndone) || errors.Is(err, tuner.ErrLeft) {
					t.Error(err)
				}
			})
		}, true},
		"killed": {func(h *host) {
			const writing = 6
			if !h.command(writing, func(u *tuner.Tuner) { _, err := u.Apply(order(confirm, other)); must(t, err) }) {
				t.Error("it was not killed")
			}
			h.do(func(*tuner.Tuner) {})
		}, true},
		"not committed": {func(h *host) {
			h.do(func(u *tuner.Tuner) { _, err := u.Apply(order(confirm, other)); must(t, err) })
			h.boottime += confirm
			if notes, err := tuner.Await(t.Context(), h.host()); err != nil || len(notes) != 1 {
				t.Errorf("%q, %v", notes, err)
			}
		}, true},
		"another boot": {func(h *host) {
			h.do(func(u *tuner.Tuner) { _, err := u.Apply(order(confirm, other)); must(t, err) })
			h.boot = "a third"
			h.do(func(*tuner.Tuner) {})
		}, true},
		"committed": {func(h *host) {
			h.do(func(u *tuner.Tuner) { _, err := u.Apply(order(confirm, other)); must(t, err); must(t, u.Commit()) })
			h.do(func(u *tuner.Tuner) { u.Rollback() })
		}, false},
		"rolled back": {func(h *host) {
			h.do(func(u *tuner.Tuner) { _, err := u.Apply(order(confirm, other)); must(t, err); u.Rollback() })
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			h.do(func(u *tuner.Tuner) { _, err := u.Apply(order(0, map[string]string{workqueue: "3"})); must(t, err) })
			want, _, err := tuner.Load(h.state)
			must(t, err)
			h.boot, h.boottime = "another", time.Minute
			tt.then(h)
			got, is, err := tuner.Load(h.state)
			must(t, err)
			if is != tt.former {
				t.Fatalf("a record: %v, %+v", is, got)
			}
			if d := cmp.Diff(want, got); is && d != "" {
				t.Error(d)
			}
		})
	}
}
