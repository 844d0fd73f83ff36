package agent_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/value/cpuset"
	"github.com/berth-project/berth/test/patience"
)

// TestThreads is a helper process. Its threads sleep, or spin with BERTH_TEST_THREADS=busy, until it is killed.
func TestThreads(*testing.T) {
	how := os.Getenv("BERTH_TEST_THREADS")
	if how == "" {
		return
	}
	runtime.GOMAXPROCS(6)
	for range 5 {
		go func() {
			runtime.LockOSThread()
			for n := 0; how == "busy"; n++ {
				runtime.KeepAlive(n)
			}
			select {}
		}()
	}
	_, _ = os.Stdout.WriteString("ready\n")
	time.Sleep(time.Hour)
}

// runs starts a process with threads in the group, and returns a function that kills it.
func (s *site) runs(how string) (end func()) {
	s.t.Helper()
	cmd := exec.CommandContext(s.t.Context(), "/proc/self/exe", "-test.run=^TestThreads$")
	cmd.Env = append(os.Environ(), "BERTH_TEST_THREADS="+how)
	said, err := cmd.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	end = func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }
	s.t.Cleanup(end)
	if _, err := said.Read(make([]byte, 1)); err != nil { // before it joins the group, whose quota is too small for its start
		s.t.Fatal(err)
	}
	if err := s.group.Attach(cmd.Process.Pid); err != nil {
		s.t.Fatal(err)
	}
	return end
}

// lends reports whether some L3 domain has two cores, or some NUMA node where the machine shows no L3.
func (s *site) lends() bool {
	s.t.Helper()
	m, err := topology.Discover(s.root.FS())
	if err != nil {
		s.t.Fatal(err)
	}
	cores := map[[2]int]int{}
	for _, c := range m.Cores {
		at := [2]int{int(c.L3), topology.None}
		if c.L3 == topology.None {
			at[1] = int(c.Node)
		}
		if cores[at]++; cores[at] > 1 {
			return true
		}
	}
	return false
}

// reaches waits until ok accepts the CPUs of both groups.
func (p *pair) reaches(what string, ok func(own, other cpuset.Set) bool) {
	p.t.Helper()
	err := patience.Until(context.WithoutCancel(p.t.Context()), 50*time.Millisecond, func() string {
		own, other := p.cpusOf(p.group), p.cpusOf(p.other)
		if ok(own, other) {
			return ""
		}
		return fmt.Sprintf("its CPUs are %s, the neighbour's %s", own, other)
	})
	if err != nil {
		p.t.Fatalf("%s: %v; status %s", what, err, p.view())
	}
}

// A workload with static-burst has a reserved CPU that its neighbor leaves, keeps its quota, and borrows a core that it
// shares with the neighbor. After a restart of the agent it has the same reserved CPU. It returns the core once its
// quota throttles it, and everything once it no longer asks.
func TestLiveStaticBurst(t *testing.T) {
	p := newPair(t, "lend")
	p.hurries()
	if !p.lends() {
		t.Skip("one core in every cache domain and node: there is none to borrow; another machine of the matrix has more")
	}
	all, limit := p.cpusOf(p.group), p.bandwidth()
	p.write("workloads/w.yaml", fmt.Sprintf(`apiVersion: berth.dev/v1alpha1
kind: Workload
metadata: {name: w, annotations: {cpuset-scheduler: "true", cpu-policy: static-burst}}
spec: {cgroup: %s, cpu: {limit: "1"}}
`, p.group.Path()))
	idle := p.runs("idle")
	stop := p.start()
	wide := func(own, other cpuset.Set) bool {
		reserved := own.Difference(other)
		return own.Size() == 2 && reserved.Size() == 1 && own.Union(other) == all
	}
	p.reaches("wide", wide)
	if got := p.bandwidth(); got != limit {
		t.Errorf("its quota is %s, was %s", got, limit)
	}
	reserved := p.cpusOf(p.group).Difference(p.cpusOf(p.other))
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if own, other := p.cpusOf(p.group), p.cpusOf(p.other); !wide(own, other) {
		t.Errorf("the end of the agent left it on %s, the neighbour on %s", own, other)
	}
	p.start()
	p.reaches("as a new agent begins", func(own, other cpuset.Set) bool {
		if other.Intersects(reserved) {
			t.Fatalf("the neighbour comes to %s, of which %s is reserved", other, reserved)
		}
		return own == reserved
	})
	p.reaches("wide again", func(own, other cpuset.Set) bool {
		if other.Intersects(reserved) {
			t.Fatalf("the neighbour comes to %s, of which %s is reserved", other, reserved)
		}
		return wide(own, other) && reserved.IsSubsetOf(own)
	})
	idle()
	p.runs("busy")
	p.reaches("throttled", func(own, other cpuset.Set) bool { return own == reserved && other == all.Difference(reserved) })
	if got := p.bandwidth(); got != limit {
		t.Errorf("its quota is %s, was %s", got, limit)
	}
	if err := os.Remove(filepath.Join(p.dir, "workloads/w.yaml")); err != nil {
		t.Fatal(err)
	}
	p.reaches("not asking any more", func(own, other cpuset.Set) bool { return own == all && other == all })
	p.eventually(limit)
}
