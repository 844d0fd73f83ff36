package drift_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability"
	"github.com/berth-project/berth/internal/capability/tune"
	"github.com/berth-project/berth/internal/capability/tune/drift"
	"github.com/berth-project/berth/internal/capability/tune/tuner"
	"github.com/berth-project/berth/internal/engine/apply"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/internal/linux/knob"
	"github.com/berth-project/berth/internal/value/cpuset"
	"github.com/berth-project/berth/test/plain"
)

const cpus = 32

// host is a tree with a frequency policy for each of 32 CPUs, and a capability that watches it.
type host struct {
	t     *testing.T
	plain *plain.Host
	state string
	root  *hostfs.Root
	watch *drift.Watch
	node  capability.Node
	// groups are the groups of units, on a running host.
	groups *cgroup.Host
	step   func(string)
	// up is CLOCK_BOOTTIME. Only the test writes it, while the capability waits.
	up time.Duration
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newHost(t *testing.T) *host {
	t.Helper()
	h := &host{t: t, plain: plain.New(t), state: t.TempDir(), up: time.Hour}
	for cpu := range cpus {
		h.set(cpu, "schedutil")
		h.write(fmt.Sprintf("sys/devices/system/cpu/cpufreq/policy%d/scaling_available_governors", cpu), "performance schedutil powersave")
	}
	h.write("proc/sys/kernel/sched_autogroup_enabled", "1")
	h.root = h.plain.Root()
	enabled := false
	config := &v1alpha1.AgentConfig{StateDir: h.state}
	config.Cluster.Enabled = &enabled
	h.node = capability.Node{Config: config, Online: cpuset.Set{}.Add(0)}
	h.start("boot")
	return h
}

// start starts a capability like an agent that starts.
func (h *host) start(boot string) {
	h.t.Helper()
	h.watch = drift.New(drift.Options{Root: h.root, Boot: boot, Boottime: func() time.Duration { return h.up }})
	h.run()
}

// run makes the capability compare concurrently with the test.
func (h *host) run() {
	watch := h.watch
	go func() { _ = watch.Run(h.t.Context()) }()
}

func (h *host) write(name, text string) { h.plain.Write(name, text+"\n") }

func governor(cpu int) string {
	return fmt.Sprintf("/sys/devices/system/cpu/cpufreq/policy%d/scaling_governor", cpu)
}

func (h *host) set(cpu int, text string) { h.t.Helper(); h.write(governor(cpu), text) }

// tuner opens the state of profiles like a command.
func (h *host) tuner(work func(*tuner.Tuner)) {
	h.t.Helper()
	u, err := tuner.Open(tuner.Host{
		Dir: filepath.Join(h.state, tuner.Subdir), Root: h.root, Boot: "boot", Groups: h.groups, Step: h.step,
		Now: time.Now, Boottime: func() time.Duration { return time.Hour },
	})
	must(h.t, err)
	work(u)
	must(h.t, u.Close())
}

// apply applies a profile, and commits it if confirm is 0.
func (h *host) apply(confirm time.Duration) {
	h.t.Helper()
	o := tuner.Order{Confirm: confirm}
	o.Profile.Name = "quick"
	for cpu := range cpus {
		o.Settings = append(o.Settings, tune.Setting{
			Knob: "cpu.governor", Instance: fmt.Sprintf("policy%d", cpu), File: governor(cpu), Want: "performance", Write: "performance",
			Support: knob.Settable, Phase: knob.Governors,
		})
	}
	h.tuner(func(u *tuner.Tuner) { _, err := u.Apply(o); must(h.t, err) })
}

// minute makes the next comparison happen, and returns its events.
func (h *host) minute() []capability.Event {
	h.t.Helper()
	h.node.Now += time.Minute
	events := h.watch.Decide(&h.node).Events
	synctest.Wait()
	return append(events, h.watch.Decide(&h.node).Events...)
}

// want compares the number of events, the text of each, and the metric, -1 for none.
func (h *host) want(events []capability.Event, n, drifted int, says ...string) {
	h.t.Helper()
	if len(events) != n {
		h.t.Fatalf("%d events, want %d: %+v", len(events), n, events)
	}
	for _, e := range events {
		for _, part := range says {
			if e.Reason != v1alpha1.EventHostDrift || !e.Warning || !strings.Contains(e.Text, part) {
				h.t.Errorf("%+v does not say %q", e, part)
			}
		}
	}
	if value := h.metric("host_profile_drift"); value != drifted {
		h.t.Errorf("the metric is %d, want %d", value, drifted)
	}
}

const none = -1

// metric returns the value of a metric, none if it is not published.
func (h *host) metric(name string) int {
	value := none
	h.watch.Measure(func(s capability.Sample) {
		if s.Metric == name {
			value = int(s.Value)
		}
	})
	return value
}

// inForce compares the metric that shows whether the committed profile is in force.
func (h *host) inForce(want int) {
	h.t.Helper()
	if value := h.metric("host_profile_in_force"); value != want {
		h.t.Errorf("the metric of a profile in force is %d, want %d", value, want)
	}
}

// TestDrift checks that a change by another program is reported once, with its description, and again after another
// change. Nothing is written.
func TestDrift(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		h.want(h.minute(), 0, none)
		h.apply(time.Minute)
		h.want(h.minute(), 0, none) // not committed yet
		h.tuner(func(u *tuner.Tuner) { must(t, u.Commit()) })
		h.want(h.minute(), 0, 0)
		for cpu := range 30 {
			h.set(cpu, "powersave")
		}
		h.want(h.minute(), 1, 30, "host profile quick", `cpu.governor policy0 is drift: "powersave", want "performance"`, "and 27 more", "berth tune verify")
		h.want(h.minute(), 0, 30)
		h.set(4, "schedutil")
		h.set(31, "schedutil")
		h.want(h.minute(), 1, 31, "policy4 is drift: \"schedutil\"", "policy31")
		for cpu := range cpus {
			h.set(cpu, "performance")
		}
		h.want(h.minute(), 0, 0)
		h.set(4, "schedutil")
		h.want(h.minute(), 1, 1, "policy4")
		if text, err := h.root.ReadFile(governor(4)); err != nil || string(text) != "schedutil\n" {
			t.Errorf("the value is %q, %v", text, err)
		}
		h.tuner(func(u *tuner.Tuner) { u.Rollback() }) // one value is another program's: the rollback is incomplete
		h.want(h.minute(), 0, none)
	})
}

// TestPoolThatIsShrunk checks that a pool with fewer huge pages than desired is drift only once it has fewer than the
// kernel provided.
func TestPoolThatIsShrunk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const pool = "/proc/sys/vm/nr_hugepages"
		h := newHost(t)
		h.write(pool, "0")
		o := tuner.Order{Settings: []tune.Setting{{
			Knob: "sysctl.vm.nr_hugepages", File: pool, Want: "1024", Write: "1024", Support: knob.Settable, Phase: knob.Plain,
		}}}
		o.Profile.Name = "pages"
		h.step = func(step string) {
			if strings.HasPrefix(step, string(apply.StepWritten)) {
				h.write(pool, "312") // there is memory for that many
			}
		}
		h.tuner(func(u *tuner.Tuner) { _, err := u.Apply(o); must(t, err) })
		h.want(h.minute(), 0, 0)
		h.write(pool, "100")
		h.want(h.minute(), 1, 1, `sysctl.vm.nr_hugepages is drift: "100", want "1024"`)
		h.write(pool, "312")
		h.want(h.minute(), 0, 0)
	})
}

// TestIgnoredByTheKernel checks that the agent asks the kernel what verify asks: the file has the desired slice of
// SCHED_RR, and the kernel uses another one. An agent that may not ask goes by the file.
func TestIgnoredByTheKernel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const file = "/proc/sys/kernel/sched_rr_timeslice_ms"
		h := newHost(t)
		h.write(file, "100")
		o := tuner.Order{Settings: []tune.Setting{{
			Knob: "rr.slice", File: file, Want: "20ms", Write: "20", Support: knob.Settable, Phase: knob.PhaseAt(file),
		}}}
		o.Profile.Name = "turns"
		h.tuner(func(u *tuner.Tuner) { _, err := u.Apply(o); must(t, err) })
		h.want(h.minute(), 0, 0)
		var failed error
		h.watch = drift.New(drift.Options{
			Root: h.root, Boot: "boot", Boottime: func() time.Duration { return h.up },
			Kernel: tuner.Kernel{Tick: 4 * time.Millisecond, RoundRobin: func() (time.Duration, error) { return 100 * time.Millisecond, failed }},
		})
		h.run()
		h.want(h.minute(), 1, 1, `rr.slice is ignored: "100ms", want "20ms"`)
		failed = errors.New("EPERM")
		h.want(h.minute(), 0, 0)
	})
}

// TestIdleStates checks that the agent compares the counts of idle states with those of its last look, and waits for
// nothing. A limit that the kernel ignores is one event, with the figures of that minute, until the kernel keeps to it.
// A minute that shows nothing changes nothing, also after the agent started again.
func TestIdleStates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const cpu = "/sys/devices/system/cpu/cpu0/"
		const file = cpu + "power/pm_qos_resume_latency_us"
		h := newHost(t)
		left := func(poll, deep int) {
			for i, state := range [][]string{{"POLL", "0", strconv.Itoa(poll)}, {"C6", "133", strconv.Itoa(deep)}} {
				for j, name := range []string{"name", "latency", "usage"} {
					h.write(fmt.Sprintf("%scpuidle/state%d/%s", cpu, i, name), state[j])
				}
			}
		}
		h.write(file, "0")
		left(0, 10)
		o := tuner.Order{Settings: []tune.Setting{{
			Knob: tuner.ResumeLatency, Instance: "cpu0", File: file, Want: "20us", Write: "20", Support: knob.Settable, Phase: knob.PhaseAt(file),
		}}}
		o.Profile.Name = "awake"
		h.tuner(func(u *tuner.Tuner) { _, err := u.Apply(o); must(t, err) })
		h.want(h.minute(), 0, 0) // the first look
		left(5, 11)
		h.want(h.minute(), 0, 0) // the CPU slept when the limit was written
		left(6, 30)
		h.want(h.minute(), 1, 1, `cpu.resumeLatency cpu0 is ignored: "133us", want "20us" (between two looks the CPU left 19 x C6 (133us))`)
		left(7, 60)
		h.want(h.minute(), 0, 1)
		h.want(h.minute(), 0, 1)
		saved := h.outcome()
		h.start("boot")
		must(t, h.watch.Recall(saved))
		h.want(h.minute(), 0, 1)
		left(9, 60)
		h.want(h.minute(), 0, 0)
		h.write(file, "500")
		left(9, 70)
		h.want(h.minute(), 1, 1, "cpu.resumeLatency cpu0 is drift")
	})
}

// TestStoppedUnit: a setting whose unit does not run is no drift, and the status names it. Once the unit runs with the
// setting, it waits no more, although nothing drifts. Another value is drift then, also after a restart of the unit that
// brought the setting.
func TestStoppedUnit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const file = "/sys/fs/cgroup/db.service/cpuset.mems"
		h := newHost(t)
		h.write("proc/self/mountinfo", "25 24 0:21 / /sys/fs/cgroup rw,relatime - cgroup2 cgroup rw")
		for _, at := range []string{"sys/fs/cgroup/", "sys/fs/cgroup/db.service/"} {
			h.write(at+"cgroup.controllers", "cpuset")
			h.write(at+"cgroup.procs", "")
			h.write(at+"cpuset.mems", "")
			h.write(at+"cpuset.mems.effective", "0")
		}
		var err error
		h.groups, err = cgroup.Open(h.root)
		must(t, err)
		o := tuner.Order{Settings: []tune.Setting{{
			Knob: tune.UnitMems, Instance: "db.service", File: file, Want: "0", Write: "0", Support: knob.Settable, Phase: knob.Units,
		}}}
		o.Profile.Name = "units"
		h.tuner(func(u *tuner.Tuner) { _, err := u.Apply(o); must(t, err) })
		must(t, os.RemoveAll(h.plain.Path("/sys/fs/cgroup/db.service")))
		h.want(h.minute(), 1, 1, "unit.mems db.service is absent") // it stopped in this boot
		record := tuner.RecordFile(filepath.Join(h.state, tuner.Subdir))
		text, err := os.ReadFile(record)
		must(t, err)
		must(t, os.WriteFile(record, []byte(strings.Replace(string(text), `"boot":"boot"`, `"boot":"earlier"`, 1)), 0o600))
		o.Again, o.Waiting, o.Settings = true, o.Settings, nil
		h.tuner(func(u *tuner.Tuner) { _, err := u.Apply(o); must(t, err) })
		h.want(h.minute(), 0, 0)
		view, err := h.watch.Describe().Reader.Node(capability.Reported{Alive: true, Node: h.outcome()})
		if err != nil || len(view.Lines) != 1 || !strings.HasSuffix(view.Lines[0], "the host has it; not set, since the unit does not run: unit.mems db.service") {
			t.Errorf("%q, %v", view.Lines, err)
		}
		h.watch = drift.New(drift.Options{Root: h.root, Boot: "boot", Groups: h.groups, Now: time.Now, Boottime: func() time.Duration { return h.up }})
		h.run()
		for name, text := range map[string]string{"cgroup.controllers": "cpuset", "cgroup.procs": "", "cpuset.mems": "0", "cpuset.mems.effective": "0"} {
			h.write("sys/fs/cgroup/db.service/"+name, text)
		}
		h.want(h.minute(), 0, 0)
		if a, _, err := tuner.Load(filepath.Join(h.state, tuner.Subdir)); err != nil || len(a.Settings) != 1 || len(a.Waiting) > 0 {
			t.Errorf("it runs: %+v, %v", a, err)
		}
		at := h.plain.Path("/sys/fs/cgroup/db.service")
		must(t, os.Rename(at, at+".old")) // its inode stays in use
		for name, text := range map[string]string{"cgroup.controllers": "cpuset", "cgroup.procs": "", "cpuset.mems": "0", "cpuset.mems.effective": "0"} {
			h.write("sys/fs/cgroup/db.service/"+name, text)
		}
		h.want(h.minute(), 0, 0) // restarted, and has them already
		h.write(file, "1")       // by another program
		h.want(h.minute(), 1, 1, "unit.mems db.service is drift")
	})
}

// TestHotplug checks that a CPU which goes online or offline causes a comparison after two seconds, not after a minute.
func TestHotplug(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		h.apply(0)
		h.want(h.minute(), 0, 0)
		h.set(7, "schedutil")
		h.node.Online = h.node.Online.Add(7)
		for second := range 3 {
			h.node.Now += time.Second
			events := h.watch.Decide(&h.node).Events
			synctest.Wait()
			if second < 2 && len(events) > 0 {
				t.Errorf("second %d: %+v", second, events)
			}
		}
		h.want(h.watch.Decide(&h.node).Events, 1, 1, "policy7")
	})
}

// TestRestart checks that a restarted agent does not repeat the reports of its predecessor, and reports after a reboot
// that the profile ended. Status alone had this report once: a host whose berth-tune failed then looked healthy to
// alerts, as the metric of drift vanished with the boot.
func TestRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		h.apply(0)
		h.set(3, "powersave")
		h.want(h.minute(), 1, 1, "policy3")
		saved := h.outcome()
		h.start("boot")
		must(t, h.watch.Recall(saved))
		h.want(h.minute(), 0, 1)
		h.says("policy3 is drift")
		h.start("another boot")
		must(t, h.watch.Recall(saved))
		h.want(h.minute(), 1, none, "host profile quick: committed, and not in force", "berth-tune")
		h.inForce(0)
		h.says("berth tune apply --committed")
	})
}

// TestEnded checks that a committed profile that nothing sets again after a boot is reported once for each boot, by
// each agent of the boot together, and only once berth-tune has had its time. The metric tells it at once. In force
// again, it is as before.
func TestEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		h.apply(0)
		h.want(h.minute(), 0, 0)
		h.inForce(1)
		for _, boot := range []string{"second", "third"} {
			saved := h.outcome()
			h.start(boot)
			must(t, h.watch.Recall(saved))
			h.up = 10*time.Minute - time.Second
			h.want(h.minute(), 0, none)
			h.inForce(0)
			saved = h.outcome()
			h.start(boot)
			must(t, h.watch.Recall(saved))
			h.up = 10 * time.Minute
			h.want(h.minute(), 1, none, "host profile quick: committed, and not in force: the last boot ended it")
			h.want(h.minute(), 0, none)
			saved = h.outcome()
			h.start(boot)
			must(t, h.watch.Recall(saved))
			h.want(h.minute(), 0, none)
			h.inForce(0)
		}
		saved := h.outcome()
		h.start("boot")
		must(t, h.watch.Recall(saved))
		h.want(h.minute(), 0, 0)
		h.inForce(1)
		h.tuner(func(u *tuner.Tuner) { u.Rollback() })
		h.want(h.minute(), 0, none)
		h.inForce(none)
	})
}

// TestEndedByAnUndo checks that the undo of another apply of the committed profile is reported once, and again after
// the profile was in force in between.
func TestEndedByAnUndo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		h.apply(0)
		h.want(h.minute(), 0, 0)
		for range 2 {
			h.set(3, "powersave")
			h.want(h.minute(), 1, 1, "policy3")
			h.apply(time.Minute)
			h.tuner(func(u *tuner.Tuner) { u.Undo() })
			h.want(h.minute(), 1, none, "not in force: an apply of it was undone: berth tune apply --committed")
			h.want(h.minute(), 0, none)
			h.inForce(0)
			h.apply(0)
			h.want(h.minute(), 0, 0)
			h.inForce(1)
		}
	})
}

// outcome returns the capability's part of a checkpoint.
func (h *host) outcome() capability.Sections {
	h.t.Helper()
	text, err := json.Marshal(h.watch.Outcome(time.Time{}).Node)
	must(h.t, err)
	var raw map[string]json.RawMessage
	must(h.t, json.Unmarshal(text, &raw))
	sections := capability.Sections{}
	for key, value := range raw {
		sections[key] = value
	}
	return sections
}

// says compares the output of status.
func (h *host) says(part string) {
	h.t.Helper()
	reader := h.watch.Describe().Reader
	view, err := reader.Node(capability.Reported{Alive: true, Node: h.outcome()})
	if err != nil || len(view.Lines) != 1 || !strings.Contains(view.Lines[0], part) {
		h.t.Errorf("%q, %v; want %q", view.Lines, err, part)
	}
	if view, err := reader.Node(capability.Reported{Node: h.outcome()}); err != nil || len(view.Lines) > 0 {
		h.t.Errorf("without an agent: %q, %v", view.Lines, err)
	}
}

// TestUnreadableRecord checks that an unreadable record is a problem in status, and no drift.
func TestUnreadableRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		h.apply(0)
		h.want(h.minute(), 0, 0)
		must(t, os.WriteFile(filepath.Join(h.state, tuner.Subdir, "applied"), []byte("{"), 0o600))
		h.want(h.minute(), 0, 0)
		if p := h.watch.Outcome(time.Time{}).Problems; len(p) != 1 || !strings.Contains(p[0], "applied") {
			t.Errorf("problems: %q", p)
		}
	})
}

// TestOverdueProfileIsGuarded checks that a profile whose deadline passed without an undo gets another keeper, once an
// hour. Values that others changed are left to the user.
func TestOverdueProfileIsGuarded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		const applied = time.Hour // As the clock of h.tuner.
		var now atomic.Int64
		var kept atomic.Int32
		now.Store(int64(applied))
		h.watch = drift.New(drift.Options{
			Root: h.root, Boot: "boot", Boottime: func() time.Duration { return time.Duration(now.Load()) },
			Keep: func(a tuner.Applied) error {
				if a.Profile.Name != "quick" {
					t.Errorf("a keeper for %q", a.Profile.Name)
				}
				kept.Add(1)
				return nil
			},
		})
		h.run()
		h.apply(time.Minute)
		for _, step := range []struct {
			at   time.Duration
			want int
		}{
			{0, 0},
			{time.Minute, 0},
			{time.Minute + 9*time.Second, 0},
			{time.Minute + 10*time.Second, 1},
			{2 * time.Minute, 1},
			{50 * time.Minute, 1},
			{62 * time.Minute, 2},
		} {
			now.Store(int64(applied + step.at))
			h.minute()
			if n := int(kept.Load()); n != step.want {
				t.Errorf("%v after the apply %d keepers were started, want %d", step.at, n, step.want)
			}
		}
	})
}

// TestKilledRollbackIsFinished checks that the agent makes a keeper finish a rollback that was killed halfway, and
// writes nothing itself.
func TestKilledRollbackIsFinished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		const limit, autogroup = "/proc/sys/kernel/sched_rt_runtime_us", "/proc/sys/kernel/sched_autogroup_enabled"
		h.write(limit, "950000")
		h.write("/proc/sys/kernel/sched_rt_period_us", "1000000")
		h.write("/proc/self/mountinfo", "31 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw")
		h.write("/sys/fs/cgroup/cgroup.controllers", "cpuset cpu io memory pids")
		groups, err := cgroup.Open(h.root)
		must(t, err)
		kept := 0
		h.watch = drift.New(drift.Options{
			Root: h.root, Boot: "boot", Groups: groups, Now: time.Now, Boottime: func() time.Duration { return time.Hour },
			Keep: func(tuner.Applied) error { kept++; return nil },
		})
		h.run()
		var o tuner.Order
		o.Profile.Name = "quick"
		for file, value := range map[string][2]string{limit: {"unlimited", "-1"}, autogroup: {"off", "0"}} {
			k, _, _ := knob.At(file)
			o.Settings = append(o.Settings, tune.Setting{
				Knob: k.Name, File: file, Want: value[0], Write: value[1], Support: knob.Settable, Phase: knob.PhaseAt(file),
			})
		}
		h.tuner(func(u *tuner.Tuner) { _, err := u.Apply(o); must(t, err) })
		h.want(h.minute(), 0, 0)
		if kept != 0 {
			t.Fatalf("%d keepers while the profile is in force", kept)
		}
		type killed struct{}
		h.step = func(step string) {
			if step == "an undo is marked" {
				panic(killed{})
			}
		}
		h.tuner(func(u *tuner.Tuner) {
			defer func() {
				if _, is := recover().(killed); !is {
					t.Error("the rollback was not killed")
				}
			}()
			u.Rollback()
		})
		h.step = nil
		h.want(h.minute(), 0, -1)
		if kept != 1 {
			t.Errorf("%d keepers, want 1", kept)
		}
		for file, want := range map[string]string{limit: "950000", autogroup: "0"} {
			if text, err := os.ReadFile(h.plain.Path(file)); strings.TrimSpace(string(text)) != want || err != nil {
				t.Errorf("%s is %s, %v, want %s", file, text, err, want)
			}
		}
	})
}
