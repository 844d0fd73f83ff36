package agent_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/berth-project/berth/internal/proof/scratch"
	"github.com/berth-project/berth/internal/value/cpuset"
	"github.com/berth-project/berth/test/patience"
)

// pair is a site with two groups: the group of a workload that may ask for exclusive CPUs, and a neighbor.
type pair struct {
	*site

	other *scratch.Group
}

func newPair(t *testing.T, name string) *pair {
	t.Helper()
	s := newSite(t, name)
	if n := s.cpusOf(s.group).Size(); n < 2 {
		t.Skipf("one CPU: no group can have an exclusive one here (%d in the set); the VM has more", n)
	}
	p := &pair{site: s, other: s.newGroup(name + "-other")}
	if err := s.group.SetMax(100000, 100000); err != nil {
		t.Fatal(err)
	}
	p.write("workloads/other.yaml", fmt.Sprintf(`apiVersion: berth.dev/v1alpha1
kind: Workload
metadata: {name: other}
spec: {cgroup: %s}
`, p.other.Path()))
	return p
}

// asks writes the workload that asks for a CPU of its own.
func (p *pair) asks() { p.says("true") }

// says writes the workload with a value of the cpuset-scheduler annotation.
func (p *pair) says(value string) {
	p.write("workloads/w.yaml", fmt.Sprintf(`apiVersion: berth.dev/v1alpha1
kind: Workload
metadata: {name: w, annotations: {cpuset-scheduler: %q}}
spec: {cgroup: %s, cpu: {limit: "1"}}
`, value, p.group.Path()))
}

func (s *site) cpusOf(g *scratch.Group) cpuset.Set {
	s.t.Helper()
	opened, err := s.host.Group(g.Path())
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = opened.Close() }()
	cpus, err := opened.EffectiveCPUs()
	if err != nil {
		s.t.Fatal(err)
	}
	return cpus
}

// settles waits until ok accepts the CPUs of both groups.
func (p *pair) settles(what string, ok func(own, other cpuset.Set) bool) {
	p.t.Helper()
	err := patience.Until(context.WithoutCancel(p.t.Context()), 50*time.Millisecond, func() string {
		own, other := p.cpusOf(p.group), p.cpusOf(p.other)
		if ok(own, other) {
			return ""
		}
		return fmt.Sprintf("%s: its CPUs are %s, the neighbour's %s", what, own, other)
	})
	if err != nil {
		p.t.Fatalf("%v; status %s", err, p.view())
	}
}

// shows checks for these series in one scrape.
func (p *pair) shows(series ...string) {
	p.t.Helper()
	scrape := p.get("/metrics")
	for _, one := range series {
		if !strings.Contains(scrape, "\n"+one+"\n") {
			p.t.Errorf("/metrics lacks %s", one)
		}
	}
}

// A workload keeps its own CPU, without a quota, through a restart of the agent. CPUs and quota return once the
// workload no longer asks.
func TestLiveWorkloadHasItsOwnCPU(t *testing.T) {
	p := newPair(t, "own")
	p.hurries()
	all, limit := p.cpusOf(p.group), p.bandwidth()
	p.asks()
	stop := p.start()
	pinned := func(own, other cpuset.Set) bool {
		return own.Size() == 1 && !other.IsEmpty() && !own.Intersects(other) && own.Union(other) == all
	}
	p.settles("pinned", pinned)
	p.eventually("-1/100000 burst 0")
	first := p.cpusOf(p.group)
	p.shows("berth_node_exclusive_cpus 1", `berth_node_pinnable{reason=""} 1`,
		`berth_pinned_cpus{container="",namespace="",pod="",workload="w"} 1`)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if own := p.cpusOf(p.group); own != first {
		t.Fatalf("the end of the agent moved it from %s to %s", first, own)
	}
	p.start()
	p.waitReady()
	p.passes(2)
	if own := p.cpusOf(p.group); own != first {
		t.Fatalf("a new agent moved it from %s to %s", first, own)
	}
	if err := os.Remove(filepath.Join(p.dir, "workloads/w.yaml")); err != nil {
		t.Fatal(err)
	}
	p.settles("not asking any more", func(own, other cpuset.Set) bool { return own == all && other == all })
	p.eventually(limit)
}

// A workload that stops asking in its file returns its CPU, and can ask again later.
func TestLiveWorkloadAsksNoMore(t *testing.T) {
	p := newPair(t, "no-more")
	all, limit := p.cpusOf(p.group), p.bandwidth()
	pinned := func(own, other cpuset.Set) bool { return own.Size() == 1 && !own.Intersects(other) }
	p.asks()
	p.start()
	p.settles("pinned", pinned)
	p.says("false")
	p.settles("asking no more", func(own, other cpuset.Set) bool { return own == all && other == all })
	p.eventually(limit)
	p.asks()
	p.settles("asking again", pinned)
}

// A workload that does not fit gets no CPUs and is counted as refused. Berth writes no group.
func TestLiveWorkloadThatDoesNotFit(t *testing.T) {
	p := newPair(t, "large")
	p.hurries()
	all := p.cpusOf(p.group)
	p.write("workloads/w.yaml", fmt.Sprintf(`apiVersion: berth.dev/v1alpha1
kind: Workload
metadata: {name: w, annotations: {cpuset-scheduler: "true"}}
spec: {cgroup: %s, cpu: {limit: "%d"}}
`, p.group.Path(), all.Size()))
	p.start()
	p.waitReady()
	p.passes(2)
	if own, other := p.cpusOf(p.group), p.cpusOf(p.other); own != all || other != all {
		t.Errorf("CPUs %s and %s, want %s", own, other, all)
	}
	p.shows("berth_node_exclusive_cpus 0")
	if scrape := p.get("/metrics"); !strings.Contains(scrape, "\nberth_refused_containers{reason=") {
		t.Error("/metrics does not count it as refused")
	}
}

// A workload that asks for both gets exclusive CPUs and no burst. After it stops asking for CPUs, bursting continues
// from its limit, which returns at the end.
func TestLiveOwnCPUAndBurst(t *testing.T) {
	p := newPair(t, "both")
	p.hurries()
	all, limit := p.cpusOf(p.group), p.bandwidth()
	write := func(annotations string) {
		p.write("workloads/w.yaml", fmt.Sprintf(`apiVersion: berth.dev/v1alpha1
kind: Workload
metadata: {name: w, annotations: {%s}}
spec: {cgroup: %s, cpu: {limit: "1"}}
`, annotations, p.group.Path()))
	}
	const burst = `koordinator.sh/cpuBurst: '{"policy": "cfsQuotaBurstOnly"}'`
	write(burst)
	p.start()
	p.eventually("299998/100000 burst 0")
	write(burst + `, cpuset-scheduler: "true"`)
	p.settles("pinned", func(own, other cpuset.Set) bool { return own.Size() == 1 && !own.Intersects(other) })
	p.eventually("-1/100000 burst 0")
	p.passes(3)
	if got := p.bandwidth(); got != "-1/100000 burst 0" {
		t.Errorf("with exclusive CPUs the quota is %s", got)
	}
	write(burst)
	p.settles("bursting again", func(own, other cpuset.Set) bool { return own == all && other == all })
	p.eventually("299998/100000 burst 0")
	if err := os.Remove(filepath.Join(p.dir, "workloads/w.yaml")); err != nil {
		t.Fatal(err)
	}
	p.eventually(limit)
}

// A neighbor with a CPU list of its own shrinks to the shared pool, never gets a CPU outside its list, and has its list
// again at the end.
func TestLiveOwnListBounds(t *testing.T) {
	p := newPair(t, "bounded")
	p.hurries()
	all := p.cpusOf(p.group)
	if all.Size() < 3 {
		t.Skip("with two CPUs the list is the whole pool; the VM has more")
	}
	last, _ := all.Max()
	list := cpuset.Set{}.Add(last)
	for cpu := range all.All() {
		if list.Size() < all.Size()-1 { // all but one, so that the list and the pool have equal size
			list = list.Add(cpu)
		}
	}
	if err := p.other.SetCPUs(list); err != nil {
		t.Fatal(err)
	}
	p.asks()
	p.start()
	p.settles("pinned beside the list", func(own, other cpuset.Set) bool {
		if !other.IsSubsetOf(list) {
			t.Fatalf("the group with %s was given %s", list, other)
		}
		return own.Size() == 1 && !own.Intersects(other)
	})
	p.passes(2)
	if other := p.cpusOf(p.other); !other.IsSubsetOf(list) {
		t.Fatalf("the group with %s was given %s", list, other)
	}
	if err := os.Remove(filepath.Join(p.dir, "workloads/w.yaml")); err != nil {
		t.Fatal(err)
	}
	p.settles("not asking any more", func(own, other cpuset.Set) bool { return own == all && other == list })
}
