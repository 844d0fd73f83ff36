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

	"github.com/berth-project/berth/internal/agent/window"
	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/proof/scratch"
	"github.com/berth-project/berth/internal/value/cpuset"
	"github.com/berth-project/berth/internal/value/unit"
	"github.com/berth-project/berth/test/kernel/job"
	"github.com/berth-project/berth/test/patience"
)

// sideFlag makes this binary a process of one side. The process waits until it is in its group, and then executes
// itself under the side's name. Its input controls its load.
const sideFlag = "BERTH_TEST_SIDE"

// TestSide is the helper process of a side.
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
		if strings.TrimSpace(line) == "storm" {
			go storm(t.Context(), path)
			continue
		}
		busy.Store(strings.TrimSpace(line) == "busy")
	}
}

// storm forks for as long as this process exists. Each child has the same name and ends at once.
func storm(ctx context.Context, path string) {
	runtime.LockOSThread() // a child ends with the thread that forked it
	for ctx.Err() == nil {
		child := exec.CommandContext(ctx, path, "-test.run=^$")
		child.Env = []string{}
		child.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		_ = child.Run() // a killed child also ran
	}
}

// side is a running process of one side.
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
	err = patience.Until(context.WithoutCancel(s.t.Context()), 10*time.Millisecond, func() string {
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

// status waits until ok accepts the agent's status.
func (s *site) status(what string, ok func(text string) bool) {
	s.t.Helper()
	err := patience.Until(context.WithoutCancel(s.t.Context()), 100*time.Millisecond, func() string {
		if ok(s.view()) {
			return ""
		}
		return what
	})
	if err != nil {
		s.t.Fatalf("%v; status %s", err, s.view())
	}
}

// number reads a number of the isolation from a status.
func number(text, field string) int {
	_, rest, _ := strings.Cut(text, `"`+field+`":`)
	n, _ := strconv.Atoi(rest[:max(0, strings.IndexAny(rest, ",}"))])
	return n
}

// coresOf returns the index of each CPU's core, the number of cores, and whether any core has two threads.
func (s *site) coresOf() (cores map[int]int, n int, siblings bool) {
	s.t.Helper()
	top, err := topology.Discover(s.root.FS())
	if err != nil {
		s.t.Fatal(err)
	}
	cores = map[int]int{}
	for i, c := range top.Cores {
		siblings = siblings || c.CPUs.Size() > 1
		for cpu := range c.CPUs.All() {
			cores[cpu] = i
		}
	}
	return cores, len(top.Cores), siblings
}

// While the boundary does not move, the scheduler never runs threads of both sides on one core, not even one after the
// other. This is true while processes come and go and offline work forks as fast as it can, also during the first
// separation. Two cores of one thread suffice. Without the agent such records exist.
func TestLiveSidesKeepToTheirCores(t *testing.T) {
	p := newPair(t, "cores")
	cores, n, _ := p.coresOf()
	if n < 2 {
		t.Skipf("%d core: none can be offline work's alone; the VM has more", n)
	}
	tr := newTrace(t)
	for _, g := range []*scratch.Group{p.group, p.other} {
		if err := g.SetMax(unit.NoLimit, usualPeriod); err != nil {
			t.Fatal(err)
		}
	}
	offline, online := p.join(offlineName, p.group), p.join(onlineName, p.other)
	online.says("busy")
	p.measures(tr, func(records []string) bool { moments, _, _ := crossed(records, cores); return len(moments) > 0 })
	offline.says("storm")
	p.isolates(0)
	records := tr.records(func() {
		offline = p.churns(offline, offlineName, p.group)
		offline.says("storm")
		online = p.churns(online, onlineName, p.other)
		online.says("busy")
		time.Sleep(time.Second)
	})
	moments, ofOnline, ofOffline := crossed(records, cores)
	t.Logf("%d records, online threads came to run %d times, offline ones %d times", len(records), ofOnline, ofOffline)
	if ofOnline == 0 || ofOffline == 0 {
		t.Error("one side did not run at all: nothing is measured")
	}
	if len(moments) > 0 {
		t.Errorf("%d moments on a core of the other side, the first of them: %s\nstatus %s", len(moments), moments[0], p.get(window.ViewPath))
	}
}

// measures waits until the records of a second show what the agent must prevent.
func (p *pair) measures(tr *trace, ok func(records []string) bool) {
	p.t.Helper()
	err := patience.Until(context.WithoutCancel(p.t.Context()), time.Millisecond, func() string {
		if ok(tr.records(func() { time.Sleep(time.Second) })) {
			return ""
		}
		return "without an agent no core has threads of both sides: nothing is measured"
	})
	if err != nil {
		p.t.Fatal(err)
	}
}

// Once the boundary exists, no online and offline thread run on one core at the same time. This is true while it moves,
// in a surge, when processes come and go, when a workload gets exclusive CPUs, and when a CPU goes offline and returns.
// Without the agent such records exist.
func TestLiveSidesShareNoCore(t *testing.T) {
	p := newPair(t, "switches")
	cores, count, siblings := p.coresOf()
	if count < 3 || !siblings || !ownMachine(t) {
		t.Skipf("%d cores, siblings %v: no boundary that moves between cores of two threads, or CPUs that are not the test's to switch off; the VM has four", count, siblings)
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
	p.measures(tr, func(records []string) bool { moments, _, _ := together(records, cores); return len(moments) > 0 })
	online.says("calm")
	p.asksFor(pinned, "")
	p.isolates(100)
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
		both := func(cpus cpuset.Set) func(own, other cpuset.Set) bool {
			return func(own, other cpuset.Set) bool { return apart(own, other) && own.Union(other) == cpus }
		}
		p.settles("its CPUs are both sides' again", both(all))
		last, _ := all.Max()
		online.says("busy")
		p.plugs(last, "0")
		p.settles("a CPU went", both(all.Remove(last)))
		offline = p.churns(offline, offlineName, p.group)
		online.says("calm")
		p.plugs(last, "1")
		p.settles("the CPU came back", both(all))
		online = p.churns(online, onlineName, p.other)
	})
	moments, n, m := together(records, cores)
	t.Logf("%d records, online threads came to run %d times, offline ones %d times", len(records), n, m)
	if n == 0 || m == 0 {
		t.Error("one side did not run at all: nothing is measured")
	}
	if len(moments) > 0 {
		t.Errorf("%d moments on one core, the first of them: %s\nstatus %s", len(moments), moments[0], p.view())
	}
}

func apart(own, other cpuset.Set) bool { return !own.IsEmpty() && !own.Intersects(other) }

// asksFor writes the workload of a group with annotations.
func (p *pair) asksFor(g *scratch.Group, annotations string) {
	p.write("workloads/pinned.yaml", fmt.Sprintf(`apiVersion: berth.dev/v1alpha1
kind: Workload
metadata: {name: pinned, annotations: {%s}}
spec: {cgroup: %s, cpu: {limit: "2"}}
`, annotations, g.Path()))
}

// ownMachine reports whether only the tests use this machine.
func ownMachine(t *testing.T) bool {
	t.Helper()
	guest, err := job.Guest()
	if err != nil {
		t.Fatal(err)
	}
	return guest
}

// plugs takes a CPU offline or online.
func (p *pair) plugs(cpu int, online string) {
	p.t.Helper()
	file := fmt.Sprintf("/sys/devices/system/cpu/cpu%d/online", cpu)
	if err := os.WriteFile(file, []byte(online), 0); err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = os.WriteFile(file, []byte("1"), 0) })
}

// isolates starts the agent with a threshold in percent, and waits for the boundary.
func (p *pair) isolates(percent int) {
	p.t.Helper()
	config, err := os.ReadFile(filepath.Join(p.dir, "agent.yaml"))
	if err != nil {
		p.t.Fatal(err)
	}
	p.write("agent.yaml", fmt.Sprintf(
		"%sresource-threshold-config: {clusterStrategy: {enable: true, cpuSuppressThresholdPercent: %d}}\n", config, percent))
	p.write("workloads/w.yaml", fmt.Sprintf(`apiVersion: berth.dev/v1alpha1
kind: Workload
metadata: {name: w, labels: {koordinator.sh/qosClass: BE}}
spec: {cgroup: %s}
`, p.group.Path()))
	p.start()
	p.settles("offline work came", apart)
}

// churns replaces a process of a side three times.
func (p *pair) churns(one *side, name string, g *scratch.Group) *side {
	for range 3 {
		next := p.join(name, g)
		one.end()
		one = next
	}
	return one
}

// has waits until ok accepts the CPUs of a group.
func (p *pair) has(what string, g *scratch.Group, ok func(cpuset.Set) bool) {
	p.t.Helper()
	err := patience.Until(context.WithoutCancel(p.t.Context()), 50*time.Millisecond, func() string {
		if cpus := p.cpusOf(g); !ok(cpus) {
			return what + ": it has CPUs " + cpus.String()
		}
		return ""
	})
	if err != nil {
		p.t.Fatal(err)
	}
}
