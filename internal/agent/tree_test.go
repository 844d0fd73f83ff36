package agent

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-project/berth/internal/agent/view"
	"github.com/berth-project/berth/internal/capability"
	"github.com/berth-project/berth/internal/capability/burst"
	"github.com/berth-project/berth/internal/capability/localize"
	"github.com/berth-project/berth/internal/engine/apply"
	"github.com/berth-project/berth/internal/engine/driver/cgroupfile"
	"github.com/berth-project/berth/internal/engine/driver/systemd"
	"github.com/berth-project/berth/internal/engine/journal"
	"github.com/berth-project/berth/internal/intent/manifest"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/internal/node/kubelet"
	"github.com/berth-project/berth/internal/value/unit"
)

// machine is a host of plain files with a test's clock: 4 CPUs, cgroup v2, and a group "app" limited to half a CPU.
type machine struct {
	t        testing.TB
	dir      string
	controls *controller
	journal  *journal.Journal
	log      *strings.Builder
	start    time.Time
	group    string                  // the group whose CPU time grows
	used     time.Duration           // CPU time of app
	busy     time.Duration           // CPU time of the whole machine
	more     []capability.Capability // in addition to the agent's
	mover    localize.Mover          // nil for the real mover
	boottime func() time.Duration    // nil for the agent's clock
	passes   atomic.Int64            // of the agent's loop
	halt     chan struct{}
	halted   chan struct{}
}

const app = "app"

func newMachine(t testing.TB) *machine {
	t.Helper()
	m := &machine{t: t, dir: memoryDir(t), start: time.Now(), log: &strings.Builder{}, group: app}
	m.write("proc/self/mountinfo", "31 23 0:28 / /sys/fs/cgroup rw,relatime - cgroup2 cgroup2 rw\n")
	m.write("proc/sys/kernel/random/boot_id", "11111111-2222-3333-4444-555555555555\n")
	m.write("sys/devices/system/cpu/online", "0-3\n")
	m.write("proc/sys/kernel/sched_rt_runtime_us", "950000\n")
	m.write("proc/sys/kernel/sched_rt_period_us", "1000000\n")
	m.write("sys/fs/cgroup/cgroup.controllers", "cpuset cpu\n")
	m.write("etc/agent.yaml", "workloadDir: workloads\nstateDir: state\n")
	m.mkdir("etc/workloads")
	m.run(0, 0)
	m.addGroup(app, "50000 100000")
	return m
}

// memoryDir returns a directory in memory where possible, so that tests write to no disk.
func memoryDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "berth-agent-*") //nolint:usetesting // t.TempDir is on a disk
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func (m *machine) addGroup(name, limit string) {
	dir := "sys/fs/cgroup/" + name + "/"
	m.write(dir+"cgroup.controllers", "cpuset cpu\n")
	m.write(dir+"cgroup.procs", "")
	m.write(dir+"cpuset.cpus.effective", "0-3\n")
	m.write(dir+"cpu.max", limit+"\n")
	m.write(dir+"cpu.max.burst", "0\n")
	m.stat(name, 0)
}

func (m *machine) stat(group string, used time.Duration) {
	m.write("sys/fs/cgroup/"+group+"/cpu.stat", fmt.Sprintf(
		"usage_usec %d\nuser_usec 0\nsystem_usec 0\nnr_periods 10\nnr_throttled 0\nthrottled_usec 0\nnr_bursts 0\nburst_usec 0\n",
		used.Microseconds()))
}

func (m *machine) path(name string) string { return filepath.Join(m.dir, name) }

func (m *machine) mkdir(name string) {
	m.t.Helper()
	if err := os.MkdirAll(m.path(name), 0o755); err != nil {
		m.t.Fatal(err)
	}
}

func (m *machine) write(name, content string) {
	m.t.Helper()
	m.mkdir(filepath.Dir(name))
	if m.controls != nil { // between two passes: a kernel file changes at once
		m.controls.mu.Lock()
		defer m.controls.mu.Unlock()
	}
	if err := os.WriteFile(m.path(name), []byte(content), 0o644); err != nil {
		m.t.Fatal(err)
	}
}

func (m *machine) read(name string) string {
	m.t.Helper()
	data, err := os.ReadFile(m.path(name))
	if err != nil {
		m.t.Fatal(err)
	}
	return strings.TrimSpace(string(data))
}

// run lets app use rate CPUs for d, and the other groups of the machine others CPUs.
func (m *machine) run(d time.Duration, rate float64, others ...float64) {
	const step = 25 * time.Millisecond
	var other float64
	for _, o := range others {
		other += o
	}
	for passed := time.Duration(0); passed < d || d == 0; passed += step {
		m.used += time.Duration(rate * float64(step))
		m.busy += time.Duration((rate + other) * float64(step))
		if d > 0 {
			m.stat(m.group, m.used)
		}
		// USER_HZ is 100: one count is 10 ms.
		stat := fmt.Sprintf("cpu  %d 0 0 0 0 0 0 0 0 0\n", m.busy.Milliseconds()/10)
		for cpu := range 4 {
			stat += fmt.Sprintf("cpu%d %d 0 0 0 0 0 0 0 0 0\n", cpu, m.busy.Milliseconds()/40)
		}
		m.write("proc/stat", stat)
		if d == 0 {
			return
		}
		time.Sleep(step)
	}
	synctest.Wait()
}

// workload writes the workload file of app.
func (m *machine) workload(policy string, more ...string) {
	m.write("etc/workloads/app.yaml", fmt.Sprintf(`apiVersion: berth.dev/v1alpha1
kind: Workload
metadata: {name: app, annotations: {koordinator.sh/cpuBurst: '%s'}}
spec: {cgroup: app%s}
`, policy, strings.Join(more, "")))
}

// boot starts the agent's loop.
func (m *machine) boot() {
	m.t.Helper()
	m.makes()
	m.begin()
}

// begin starts the loop of a created agent.
func (m *machine) begin() {
	m.halt, m.halted = make(chan struct{}), make(chan struct{})
	go m.turn(m.controls, m.halt, m.halted)
	synctest.Wait()
}

// makes creates an agent.
func (m *machine) makes() {
	m.t.Helper()
	root, err := hostfs.Open(m.dir)
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() { _ = root.Close() })
	cfg, err := manifest.LoadConfig(m.path("etc/agent.yaml"))
	if err != nil {
		m.t.Fatal(err)
	}
	opts := Options{
		ConfigFile: m.path("etc/agent.yaml"), Config: cfg, Version: "test", Root: root,
		Clock: func() time.Duration { return time.Hour + time.Since(m.start) }, Now: time.Now,
		Log:  slog.New(slog.NewTextHandler(io.MultiWriter(m.log, m.t.Output()), nil)),
		more: m.more, mover: m.mover, boottime: m.boottime,
	}
	if opts.boottime == nil {
		opts.boottime = opts.Clock
	}
	if err := opts.describeKernel(); err != nil {
		m.t.Fatal(err)
	}
	opts.facts.slice, opts.facts.tick = unit.Micros(5000), 4*time.Millisecond
	host, err := cgroup.Open(root)
	if err != nil {
		m.t.Fatal(err)
	}
	if m.journal, err = journal.Open(cfg.StateDir, opts.BootID, cgroupfile.Values()); err != nil {
		m.t.Fatal(err)
	}
	applier := apply.New(cgroupfile.Kinds(host, nil), m.journal, apply.Options{})
	opts.settles = applier
	putBackOrphans(opts, m.journal, applier)
	m.controls = newController(opts, host, m.journal, writing{applier: applier, systemd: systemd.Runs()})
}

// kubeletSays gives an agent a reading of the kubelet. The caller holds the lock, if the agent runs.
func kubeletSays(c *controller, r kubelet.Reading) error {
	_, err := c.hardware.TakeKubelet(r, c.opts.Clock())
	passOwner(c)
	return err
}

// turn is the loop of controller.run, without its orderly end.
func (m *machine) turn(c *controller, halt, halted chan struct{}) {
	defer close(halted)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-halt:
			return
		case <-timer.C:
			timer.Reset(c.pass())
			m.passes.Add(1)
		}
	}
}

// stop ends the agent in order, as SIGTERM does.
func (m *machine) stop() error {
	m.t.Helper()
	m.end()
	defer m.closeJournal()
	return m.controls.stop()
}

// kill ends the agent between two passes without an orderly end, as SIGKILL does.
func (m *machine) kill() {
	m.end()
	m.controls.built.burst.Close() // the kernel closes the files of a dead process
	m.controls.documents.roster.Close()
	m.closeJournal()
}

func (m *machine) end() {
	close(m.halt)
	<-m.halted
	m.halt = nil
}

// abandon ends a loop that a failed test left running.
func (m *machine) abandon() {
	if m.halt != nil {
		m.end()
	}
}

func (m *machine) closeJournal() {
	if err := m.journal.Close(); err != nil {
		m.t.Error(err)
	}
}

// shown is a workload's status with its burst section.
type shown struct {
	view.Status
	Burst *burst.Status `json:"burst,omitempty"`
}

// status returns app's status.
func (m *machine) status() shown {
	m.t.Helper()
	m.controls.mu.Lock()
	defer m.controls.mu.Unlock()
	for _, s := range m.controls.checkpoint().Workloads {
		if s.Name == app {
			burst, _ := s.Sections["burst"].(*burst.Status)
			return shown{s, burst}
		}
	}
	m.t.Fatal("no workload app")
	return shown{}
}

func (m *machine) statusJSON() string {
	data, err := json.MarshalIndent(m.status().Status, "", " ")
	if err != nil {
		m.t.Fatal(err)
	}
	return string(data)
}

func (m *machine) quota() string { return m.quotaOf(m.group) }

func (m *machine) quotaOf(group string) string { return m.read("sys/fs/cgroup/" + group + "/cpu.max") }
