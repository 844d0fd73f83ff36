package agent_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-project/berth/internal/cpuset"
	"github.com/berth-project/berth/internal/scratch"
	"github.com/berth-project/berth/internal/topology"
	"github.com/berth-project/berth/internal/unit"
	"github.com/berth-project/berth/test/patience"
)

// The names that threads of either side have in the kernel's records.
const (
	onlineName  = "berth-online"
	offlineName = "berth-offline"
)

// together are the moments at which an online and an offline thread were on one core, by the
// records of sched_switch in the order of time, and how often a thread of either side came to run
// at all. cores has the number of the core of each CPU.
func together(records []string, cores map[int]int) (moments []string, online, offline int) {
	running := map[int]string{}
	for _, record := range records {
		if s, ok := parseSwitch(record); ok {
			if _, known := running[s.cpu]; !known {
				running[s.cpu] = s.previous // since before the first record
			}
		}
	}
	for _, record := range records {
		s, ok := parseSwitch(record)
		if !ok {
			continue
		}
		running[s.cpu] = s.next
		other := ""
		switch s.next {
		case onlineName:
			online, other = online+1, offlineName
		case offlineName:
			offline, other = offline+1, onlineName
		default:
			continue
		}
		for cpu, name := range running {
			if cpu != s.cpu && name == other && cores[cpu] == cores[s.cpu] {
				moments = append(moments, fmt.Sprintf("beside CPU %d: %s", cpu, record))
			}
		}
	}
	return moments, online, offline
}

// switched is one record of sched_switch.
type switched struct {
	cpu            int
	previous, next string
}

// parseSwitch reads "  comm-12  [003] d..2.  1.234567: sched_switch: prev_comm=a … ==> next_comm=b …".
func parseSwitch(record string) (s switched, ok bool) {
	head, rest, ok := strings.Cut(record, ": sched_switch: prev_comm=")
	if !ok {
		return s, false
	}
	previous, rest, _ := strings.Cut(rest, " prev_pid=")
	_, rest, _ = strings.Cut(rest, " next_comm=")
	next, _, found := strings.Cut(rest, " next_pid=")
	open := strings.LastIndex(head, "[")
	if !found || open < 0 {
		return s, false
	}
	number, _, _ := strings.Cut(head[open+1:], "]")
	cpu, err := strconv.Atoi(number)
	return switched{cpu, previous, next}, err == nil
}

// What counts as together: the two sides on two CPUs of one core, also by what ran there before
// the first record; and nothing else.
func TestTogether(t *testing.T) {
	t.Parallel()
	record := func(cpu int, previous, next string) string {
		return fmt.Sprintf("   x-1   [%03d] d..2.  1.000001: sched_switch: prev_comm=%s prev_pid=7 prev_prio=120 prev_state=R ==> next_comm=%s next_pid=8 next_prio=120", cpu, previous, next)
	}
	cores := map[int]int{0: 0, 1: 0, 2: 1, 3: 1}
	for _, test := range []struct {
		name    string
		records []string
		want    int
	}{
		{"one after the other on a CPU", []string{record(0, "swapper/0", onlineName), record(0, onlineName, offlineName), record(0, offlineName, onlineName)}, 0},
		{"on two cores", []string{record(0, "swapper/0", onlineName), record(2, "swapper/2", offlineName)}, 0},
		{"on one core", []string{record(0, "swapper/0", onlineName), record(1, "swapper/1", offlineName)}, 1},
		{"left before", []string{record(0, "swapper/0", onlineName), record(0, onlineName, "swapper/0"), record(1, "swapper/1", offlineName)}, 0},
		{"ran before the first record", []string{record(1, "swapper/1", onlineName), record(0, offlineName, "swapper/0")}, 1},
		{"two of one side", []string{record(2, "swapper/2", offlineName), record(3, "swapper/3", offlineName)}, 0},
		{"another program, and no record", []string{record(2, "x", "y z"), record(3, "y", offlineName), "# tracer: nop"}, 0},
	} {
		if got, _, _ := together(test.records, cores); len(got) != test.want {
			t.Errorf("%s: %d moments, want %d: %q", test.name, len(got), test.want, got)
		}
	}
}

// trace records sched_switch in buffers of its own.
type trace struct {
	t   *testing.T
	dir string
}

func newTrace(t *testing.T) *trace {
	t.Helper()
	top := t.TempDir()
	if err := unix.Mount("tracefs", top, "tracefs", 0, ""); err != nil {
		t.Skipf("records of the scheduler: mount tracefs: %v; the VM has them", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(top, unix.MNT_DETACH) })
	tr := &trace{t: t, dir: filepath.Join(top, "instances", scratch.Name("test"))}
	if err := os.Mkdir(tr.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.Remove(tr.dir); err != nil {
			t.Error(err)
		}
	})
	tr.set("trace_clock", "global")
	tr.set("buffer_size_kb", "16384")
	tr.set("events/sched/sched_switch/filter", fmt.Sprintf(
		`prev_comm == "%[1]s" || next_comm == "%[1]s" || prev_comm == "%[2]s" || next_comm == "%[2]s"`, onlineName, offlineName))
	tr.set("events/sched/sched_switch/enable", "1")
	return tr
}

func (tr *trace) set(name, value string) {
	tr.t.Helper()
	if err := os.WriteFile(filepath.Join(tr.dir, name), []byte(value), 0); err != nil {
		tr.t.Fatal(err)
	}
}

// records returns those of the time in which what ran, in order. None of them may be missing.
func (tr *trace) records(what func()) []string {
	tr.t.Helper()
	tr.set("tracing_on", "0")
	tr.set("trace", "")
	tr.set("tracing_on", "1")
	what()
	tr.set("tracing_on", "0")
	stats, err := filepath.Glob(filepath.Join(tr.dir, "per_cpu/cpu*/stats"))
	if err != nil || len(stats) == 0 {
		tr.t.Fatal(stats, err)
	}
	for _, name := range stats {
		text, err := os.ReadFile(name)
		if err != nil || !strings.Contains(string(text), "\noverrun: 0\n") {
			tr.t.Fatalf("records are lost: %v\n%s", err, text)
		}
	}
	file, err := os.Open(filepath.Join(tr.dir, "trace"))
	if err != nil {
		tr.t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	var all []string
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		all = append(all, lines.Text())
	}
	if err := lines.Err(); err != nil {
		tr.t.Fatal(err)
	}
	return all
}

// sideFlag makes this binary a process of one side: first one that waits until it is in its group,
// then one of the side's name, whose load its input says.
const sideFlag = "BERTH_TEST_SIDE"

// TestSide is such a process.
func TestSide(t *testing.T) {
	path := os.Getenv(sideFlag)
	if path == "" {
		return
	}
	input := bufio.NewReader(os.Stdin)
	if os.Getenv(sideFlag+"_RUNS") == "" {
		if _, err := input.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		env := append(os.Environ(), sideFlag+"_RUNS=1")
		t.Fatal(syscall.Exec(path, []string{path, "-test.run=^TestSide$"}, env))
	}
	var busy atomic.Bool
	busy.Store(filepath.Base(path) == offlineName)
	for range runtime.NumCPU() {
		go func() {
			for n := 0; ; n++ {
				if n%1000 == 0 && !busy.Load() {
					time.Sleep(50 * time.Millisecond)
				}
			}
		}()
	}
	for {
		line, err := input.ReadString('\n')
		if err != nil {
			return
		}
		busy.Store(strings.TrimSpace(line) == "busy")
	}
}

// side is a process of one side.
type side struct {
	*exec.Cmd

	t     *testing.T
	input io.WriteCloser
}

// join starts a process of a side in a group.
func (s *site) join(name string, g *scratch.Group) *side {
	s.t.Helper()
	exe, err := os.Executable()
	if err != nil {
		s.t.Fatal(err)
	}
	path := filepath.Join(s.dir, name)
	if err := os.Symlink(exe, path); err != nil && !errors.Is(err, os.ErrExist) {
		s.t.Fatal(err)
	}
	one := &side{Cmd: exec.CommandContext(s.t.Context(), exe, "-test.run=^TestSide$"), t: s.t}
	one.Env = append(os.Environ(), sideFlag+"="+path)
	if one.input, err = one.StdinPipe(); err != nil {
		s.t.Fatal(err)
	}
	if err := one.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(one.end)
	if err := g.Attach(one.Process.Pid); err != nil {
		s.t.Fatal(err)
	}
	one.says("go")
	err = patience.Until(context.WithoutCancel(s.t.Context()), time.Minute, 10*time.Millisecond, func() string {
		comm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", one.Process.Pid))
		if strings.TrimSpace(string(comm)) == name {
			return ""
		}
		return fmt.Sprintf("process %d of %s is called %q", one.Process.Pid, name, comm)
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return one
}

func (s *side) says(what string) {
	s.t.Helper()
	if _, err := fmt.Fprintln(s.input, what); err != nil {
		s.t.Fatal(err)
	}
}

func (s *side) end() { _, _ = s.Process.Kill(), s.Wait() }

// status waits until the status of the agent has a text.
func (s *site) status(what string, ok func(text string) bool) {
	s.t.Helper()
	err := patience.Until(context.WithoutCancel(s.t.Context()), 2*time.Minute, 100*time.Millisecond, func() string {
		if ok(s.get("/api/v1/status")) {
			return ""
		}
		return what
	})
	if err != nil {
		s.t.Fatalf("%v; status %s", err, s.get("/api/v1/status"))
	}
}

// number reads a number of the isolation in a status.
func number(text, field string) int {
	_, rest, _ := strings.Cut(text, `"`+field+`":`)
	n, _ := strconv.Atoi(rest[:max(0, strings.IndexAny(rest, ",}"))])
	return n
}

// No record of the scheduler has an online and an offline thread on one core at a time, once the
// boundary stands: not while it moves, in a surge, when processes come and go, or when a
// workload takes CPUs for itself. Without the agent there are such records.
func TestLiveSidesShareNoCore(t *testing.T) {
	p := newPair(t, "switches")
	top, err := topology.Discover(p.root.FS())
	if err != nil {
		t.Fatal(err)
	}
	cores := map[int]int{}
	siblings := false
	for i, c := range top.Cores {
		siblings = siblings || c.CPUs.Size() > 1
		for cpu := range c.CPUs.All() {
			cores[cpu] = i
		}
	}
	if len(top.Cores) < 3 || !siblings {
		t.Skipf("%d cores, siblings %v: no boundary that moves between cores of two threads; the VM has four", len(top.Cores), siblings)
	}
	tr, all := newTrace(t), p.cpusOf(p.other)
	pinned := p.newGroup("switches-pinned")
	for _, g := range []*scratch.Group{p.group, p.other, pinned} {
		if err := g.SetMax(unit.NoLimit, usualPeriod); err != nil {
			t.Fatal(err)
		}
	}
	offline, online := p.join(offlineName, p.group), p.join(onlineName, p.other)
	exclusive := p.join(onlineName, pinned)
	online.says("busy")
	err = patience.Until(context.WithoutCancel(t.Context()), time.Minute, time.Millisecond, func() string {
		records := tr.records(func() { time.Sleep(time.Second) })
		if moments, _, _ := together(records, cores); len(moments) > 0 {
			return ""
		}
		return "without an agent no online thread is beside an offline one: nothing is measured"
	})
	if err != nil {
		t.Fatal(err)
	}
	online.says("calm")
	p.asksFor(pinned, "")
	p.isolates()
	records := tr.records(func() {
		p.status("offline work grew", func(text string) bool { return number(text, "moves") > 0 })
		offline = p.churns(offline, offlineName, p.group)
		online.says("busy")
		p.status("offline work gave back in a surge", func(text string) bool { return number(text, "surges") > 0 })
		online = p.churns(online, onlineName, p.other)
		p.asksFor(pinned, `cpuset-scheduler: "true"`)
		p.has("two CPUs for itself", pinned, func(cpus cpuset.Set) bool { return cpus.Size() == 2 })
		offline = p.churns(offline, offlineName, p.group)
		exclusive.end()
		if err := os.Remove(filepath.Join(p.dir, "workloads/pinned.yaml")); err != nil {
			t.Fatal(err)
		}
		p.settles("its CPUs are both sides' again", func(own, other cpuset.Set) bool { return apart(own, other) && own.Union(other) == all })
	})
	moments, n, m := together(records, cores)
	t.Logf("%d records, online threads came to run %d times, offline ones %d times", len(records), n, m)
	if n == 0 || m == 0 {
		t.Error("one side did not run at all: nothing is measured")
	}
	if len(moments) > 0 {
		t.Errorf("%d moments on one core, the first of them: %s\nstatus %s", len(moments), moments[0], p.get("/api/v1/status"))
	}
}

func apart(own, other cpuset.Set) bool { return !own.IsEmpty() && !own.Intersects(other) }

// asksFor writes the workload of a group, with annotations.
func (p *pair) asksFor(g *scratch.Group, annotations string) {
	p.write("workloads/pinned.yaml", fmt.Sprintf(`apiVersion: berth.dev/v1alpha1
kind: Workload
metadata: {name: pinned, annotations: {%s}}
spec: {cgroup: %s, cpu: {limit: "2"}}
`, annotations, g.Path()))
}

// isolates starts the agent and waits until the boundary stands.
func (p *pair) isolates() {
	p.t.Helper()
	config, err := os.ReadFile(filepath.Join(p.dir, "agent.yaml"))
	if err != nil {
		p.t.Fatal(err)
	}
	p.write("agent.yaml", string(config)+
		"resource-threshold-config: {clusterStrategy: {enable: true, cpuSuppressThresholdPercent: 100}}\n")
	p.write("workloads/w.yaml", fmt.Sprintf(`apiVersion: berth.dev/v1alpha1
kind: Workload
metadata: {name: w, labels: {koordinator.sh/qosClass: BE}}
spec: {cgroup: %s}
`, p.group.Path()))
	p.start()
	p.settles("offline work came", apart)
}

// churns replaces a process of a side by others that come and go.
func (p *pair) churns(one *side, name string, g *scratch.Group) *side {
	for range 3 {
		next := p.join(name, g)
		one.end()
		one = next
	}
	return one
}

// has waits until a group has CPUs as ok says.
func (p *pair) has(what string, g *scratch.Group, ok func(cpuset.Set) bool) {
	p.t.Helper()
	err := patience.Until(context.WithoutCancel(p.t.Context()), time.Minute, 50*time.Millisecond, func() string {
		if cpus := p.cpusOf(g); !ok(cpus) {
			return what + ": it has CPUs " + cpus.String()
		}
		return ""
	})
	if err != nil {
		p.t.Fatal(err)
	}
}
