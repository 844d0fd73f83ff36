package place_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability/place"
	"github.com/berth-project/berth/internal/capability/place/alloc"
	"github.com/berth-project/berth/internal/intent/workload"
	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/node/observed"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// The memory nodes of a placement take effect where the memory is known to fit. Otherwise the container has all nodes,
// and its annotation says so.
func TestMemoryOfPlacement(t *testing.T) {
	tests := []struct {
		name      string
		requested int64 // by a pod beside it, in GiB
		huge      bool
		mems      string
	}{
		{"fits", 50, false, "0"},
		{"is not known to fit", 120, false, "0-1"},
		{"huge pages that the node does not have", 0, true, "0-1"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			n := place.New(two().facts(t))
			beside := plain("web", 1, app("nginx", 1))
			beside.ScheduledMemory = test.requested * gi
			n.Pods.Put(beside)
			p := placed(pod("redis", 2, app("redis", 2)), "redis", "1,9", "0")
			if test.huge {
				p.Containers[0].Huge.Put(gi, gi)
				p.ScheduledHuge = p.Containers[0].Huge
			}
			n.Pods.Put(p)
			a := create(t, n, "redis", "redis")
			if got := a.Own[0]; got.CPUs != set(t, "1,9") || got.Mems.String() != test.mems {
				t.Errorf("CPUs %s, mems %s, want 1,9 and %s", got.CPUs, got.Mems, test.mems)
			}
			written := ""
			for _, one := range n.Events() {
				if one.PodUID == "redis" && one.Annotation != nil {
					written = one.Annotation.Containers["redis"].Mems
				}
			}
			if want := map[bool]string{true: test.mems}[test.mems != "0"]; written != want {
				t.Errorf("mems %q are written back, want %q", written, want)
			}
		})
	}
}

// A running container keeps its memory nodes, even if its node no longer has room for them.
func TestMemoryOfRunningContainerStays(t *testing.T) {
	n := place.New(two().facts(t))
	beside := plain("web", 1, app("nginx", 1))
	beside.ScheduledMemory = 100 * gi
	n.Pods.Put(beside)
	n.Pods.Put(placed(pod("redis", 2, app("redis", 2)), "redis", "1,9", "0"))
	n.Pods.Observe(observed.Container{ID: "redis/redis", PodUID: "redis", Name: "redis", Phase: observed.Running, CPUs: set(t, "1,9"), Given: set(t, "1,9"), Pinned: true})
	for _, d := range n.Desired() {
		if d.Container == "redis" && d.Mems.String() != "0" {
			t.Errorf("mems %s", d.Mems)
		}
	}
}

// shrunk returns the facts of two() where NUMA node 0 has less memory, or a pool of huge pages.
func shrunk(t *testing.T, memory, pool int64) place.Facts {
	t.Helper()
	f := two().facts(t)
	top := *f.Machine.Topology()
	top.Nodes = slices.Clone(top.Nodes)
	top.Nodes[0].MemoryBytes = memory * gi
	if pool > 0 {
		top.Nodes[0].HugePageBytes = pool * gi
		top.Nodes[0].HugePages = []topology.HugePages{{PageKiB: 1 << 20, Pages: pool}}
	}
	var err error
	if f.Machine, err = alloc.Compile(&top); err != nil {
		t.Fatal(err)
	}
	return f
}

// When a NUMA node shrinks, a running pod keeps its memory nodes, and a pod of which nothing runs gets all. Both say so.
func TestMemoryShrinksUnderPods(t *testing.T) {
	const (
		kept  = "; NUMA nodes 0 have less memory than is bound to them: its memory nodes stay while it runs"
		wider = "; memory nodes 0-1, because NUMA nodes 0 alone were not known to have room for it"
	)
	for _, c := range []struct {
		name          string
		before, after place.Facts
		huge, runs    bool
		mems, why     string
	}{
		{"enough is left, running", two().facts(t), shrunk(t, 32, 0), false, true, "0", ""},
		{"enough is left, waiting", two().facts(t), shrunk(t, 32, 0), false, false, "0", ""},
		{"running", two().facts(t), shrunk(t, 16, 0), false, true, "0", kept},
		{"waiting", two().facts(t), shrunk(t, 16, 0), false, false, "0-1", wider},
		{"huge pages, running", shrunk(t, 64, 24), shrunk(t, 64, 16), true, true, "0", kept},
		{"huge pages, waiting", shrunk(t, 64, 24), shrunk(t, 64, 16), true, false, "0-1", wider},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := place.New(c.before)
			p := placed(pod("redis", 2, app("redis", 2)), "redis", "1,9", "0")
			p.Containers[0].MemoryLimit = 20 * gi
			if c.huge {
				p.Containers[0].MemoryLimit = gi
				p.Containers[0].Huge.Put(gi, 20*gi)
				p.ScheduledHuge = p.Containers[0].Huge
			}
			n.Pods.Put(p)
			if c.runs {
				start(t, n, "redis", "redis")
			}
			n.Events()
			before := settings(n)
			n.SetFacts(c.after)
			if written := writtenMems(n.Events()); c.runs || c.why == "" {
				equal(t, "settings", settings(n), before)
				equal(t, "events", written, "")
			} else {
				equal(t, "events", written, "0-1")
			}
			if !c.runs {
				create(t, n, "redis", "redis")
			}
			for range 2 { // it says so for as long as that lasts
				row := n.Snapshot().Rows[0]
				if row.Desired != set(t, "1,9") || row.Mems.String() != c.mems || row.Why != "exclusive CPUs, by its placement"+c.why {
					t.Errorf("CPUs %s, mems %s, %q, want mems %s and %q", row.Desired, row.Mems, row.Why, c.mems, c.why)
				}
				n.Pods.Put(plain("web", 1, app("nginx", 1)))
			}
			n.SetFacts(c.before)
			if row := n.Snapshot().Rows[0]; c.runs && row.Why != "exclusive CPUs, by its placement" {
				t.Errorf("with the memory back: %q", row.Why)
			}
		})
	}
}

// settings returns what is desired of all groups, without the reasons.
func settings(n *place.Node) string {
	var all []string
	for _, d := range n.Desired() {
		for _, one := range d.Settings() {
			all = append(all, one.String()+" "+string(one.Value))
		}
	}
	return strings.Join(all, ", ")
}

// writtenMems returns the memory nodes of the placements that events write, and the reasons of all other events.
func writtenMems(events []place.Event) string {
	var all []string
	for _, e := range events {
		if e.Annotation == nil {
			all = append(all, e.Reason)
			continue
		}
		for _, one := range e.Annotation.Containers {
			all = append(all, one.Mems)
		}
	}
	return strings.Join(all, " ")
}

// A pod that this agent placed or moved, and of which nothing runs, gets all memory nodes when its node shrinks, and
// keeps them after a restart of the agent.
func TestMemoryShrinksUnderOwnDecision(t *testing.T) {
	for _, moved := range []bool{false, true} {
		n := place.New(two().facts(t))
		p := pod("redis", 2, app("redis", 2))
		p.Containers[0].MemoryLimit = 20 * gi
		origin := "chosen by the agent of this node"
		if moved {
			origin = "moved by a repack"
			p = placed(p, "redis", "1,9", "0")
			n.Pods.Put(p)
			n.Events()
			p = moves(p, v1alpha1.Move{From: "1,9", To: "2,10"})
		}
		n.Pods.Put(p)
		before := create(t, n, "redis", "redis").Own[0].Mems.String()
		n.Pods.Remove("redis/redis")
		n.Events()
		n.SetFacts(shrunk(t, 16, 0))
		events := n.Events()
		equal(t, "events", writtenMems(events), "0-1")
		own := create(t, n, "redis", "redis").Own[0]
		equal(t, "mems before and after", before+" "+own.Mems.String(), "0 0-1")
		equal(t, "why", own.Why, "exclusive CPUs, "+origin+"; memory nodes 0-1, because NUMA nodes 0 alone were not known to have room for it")

		again := place.New(shrunk(t, 16, 0))
		again.Pods.Put(with(p, v1alpha1.AnnotationPlacement, events[0].Annotation.Encode()))
		same := create(t, again, "redis", "redis").Own[0]
		equal(t, "after a restart", same.CPUs.String()+" "+same.Mems.String(), own.CPUs.String()+" 0-1")
	}
}

// A container that this agent gave memory nodes keeps them when its node shrinks, even if another program set its CPUs
// before the agent saw it.
func TestMemoryOfCreatedContainerStays(t *testing.T) {
	n := place.New(two().facts(t))
	p := pod("redis", 2, app("redis", 2))
	p.Containers[0].MemoryLimit = 20 * gi
	n.Pods.Put(p)
	create(t, n, "redis", "redis")
	n.Pods.Observe(observed.Container{ID: "redis/redis", PodUID: "redis", Name: "redis", Phase: observed.Running, CPUs: set(t, "0-15")})
	before := settings(n)
	n.Events()
	n.SetFacts(shrunk(t, 16, 0))
	equal(t, "settings", settings(n), before)
	equal(t, "events", writtenMems(n.Events()), "")

	again := place.New(shrunk(t, 16, 0))
	again.Pods.Observe(observed.Container{
		ID: "redis/redis", PodUID: "redis", Name: "redis", Phase: observed.Running, CPUs: set(t, "0-15"), Given: set(t, "1,9"), Pinned: true,
	})
	again.Pods.Put(placed(p, "redis", "1,9", "0"))
	equal(t, "mems after a restart", again.Desired()[0].Mems.String(), "0")
	equal(t, "events after a restart", writtenMems(again.Events()), "")
}

// A container with all memory nodes is bound to none, so none of them has too little for it.
func TestMemoryOfUnboundContainer(t *testing.T) {
	n := place.New(two().facts(t))
	p := placed(pod("redis", 2, app("redis", 2), app("log", 2)), "redis", "1,9", "0", "log", "6,14", "0-1")
	p.Containers[0].MemoryLimit = 20 * gi
	n.Pods.Put(p)
	start(t, n, "redis", "redis")
	start(t, n, "redis", "log")
	n.SetFacts(shrunk(t, 16, 0))
	for _, d := range n.Desired() {
		if strings.Contains(d.Why, "less memory") != (d.Container == "redis") {
			t.Errorf("%s, with memory nodes %s: %q", d.Container, d.Mems, d.Why)
		}
	}
}

// A pod that is widened twice says so of each container.
func TestMemoryShrinksTwice(t *testing.T) {
	n := place.New(two().facts(t))
	p := placed(pod("redis", 2, app("redis", 2), app("log", 2)), "redis", "1,9", "0", "log", "6,14", "1")
	p.Containers[0].MemoryLimit, p.Containers[1].MemoryLimit = 20*gi, 20*gi
	n.Pods.Put(p)
	n.Events()
	once := shrunk(t, 16, 0)
	n.SetFacts(once)
	n.Events()
	twice := once
	top := *once.Machine.Topology()
	top.Nodes = slices.Clone(top.Nodes)
	top.Nodes[1].MemoryBytes = 16 * gi
	var err error
	if twice.Machine, err = alloc.Compile(&top); err != nil {
		t.Fatal(err)
	}
	n.SetFacts(twice)
	for i, name := range []string{"log", "redis"} {
		why := create(t, n, "redis", name).Own[0].Why
		want := fmt.Sprintf("memory nodes 0-1, because NUMA nodes %d alone", 1-i)
		if !strings.Contains(why, want) {
			t.Errorf("%s: %q, want %q", name, why, want)
		}
	}
}

// A resize of memory changes nothing for the pod itself. Pods after it find the memory that it has now.
func TestMemoryOfResizedPod(t *testing.T) {
	for _, test := range []struct {
		before, after int64 // in GiB
		putOff        bool  // CPUs were asked for at the same time, and there are none
		mems          string
	}{
		{20, 20, false, "0"},
		{20, 50, false, "0-1"},
		{50, 20, false, "0"},
		{20, 50, true, "0-1"},
	} {
		n := place.New(two().facts(t))
		first := placed(pod("redis", 2, app("redis", 2)), "redis", "1,9", "0")
		first.Containers[0].MemoryLimit = test.before * gi
		n.Pods.Put(first)
		start(t, n, "redis", "redis")
		n.Events()
		resized := placed(pod("redis", 2, app("redis", 2)), "redis", "1,9", "0")
		resized.Containers[0].MemoryLimit = test.after * gi
		if test.putOff {
			resized.Containers[0].CPULimit = 100 * 1000
		}
		n.Pods.Put(resized)
		second := placed(pod("nginx", 2, app("nginx", 2)), "nginx", "2,10", "0")
		second.Containers[0].MemoryLimit = 20 * gi
		n.Pods.Put(second)
		if got := create(t, n, "nginx", "nginx").Own[0].Mems.String(); got != test.mems {
			t.Errorf("from %d to %d GiB: mems %s, want %s", test.before, test.after, got, test.mems)
		}
		for _, d := range n.Desired() {
			if d.Container == "redis" && (d.CPUs != set(t, "1,9") || d.Mems.String() != "0") {
				t.Errorf("from %d to %d GiB: the resized pod has CPUs %s, mems %s", test.before, test.after, d.CPUs, d.Mems)
			}
		}
	}
}

// Only the containers whose memory nodes changed, or have too little memory, say so.
func TestMemoryOfOtherContainers(t *testing.T) {
	for _, runs := range []bool{false, true} {
		n := place.New(two().facts(t))
		p := placed(pod("redis", 2, app("redis", 2), app("log", 2)), "redis", "1,9", "0", "log", "6,14", "1")
		p.Containers[0].MemoryLimit, p.Containers[1].MemoryLimit = 20*gi, 20*gi
		n.Pods.Put(p)
		if runs {
			start(t, n, "redis", "redis")
			start(t, n, "redis", "log")
		}
		n.Events()
		n.SetFacts(shrunk(t, 16, 0))
		n.Events()
		if !runs {
			create(t, n, "redis", "redis")
			create(t, n, "redis", "log")
		}
		var all []string
		for _, d := range n.Desired() {
			all = append(all, d.Container+" "+d.Mems.String()+" "+strings.TrimPrefix(d.Why, "exclusive CPUs, by its placement"))
		}
		want := "log 1 \nredis 0-1 ; memory nodes 0-1, because NUMA nodes 0 alone were not known to have room for it"
		if runs {
			want = "log 1 \nredis 0 ; NUMA nodes 0 have less memory than is bound to them: its memory nodes stay while it runs"
		}
		equal(t, "why", strings.Join(all, "\n"), want)
	}
}

// found returns a container that an earlier agent answered with CPUs and memory nodes, as the next agent finds it.
func found(t *testing.T, name, cpus, made, mems string) observed.Container {
	t.Helper()
	return observed.Container{
		ID: "redis/" + name, PodUID: "redis", Name: name, Phase: observed.Running, CPUs: set(t, cpus),
		Made: &observed.Made{CPUs: set(t, made), Mems: set(t, mems)},
	}
}

// The agent answers the runtime before it writes a wider placement. If it ends between the two, the next agent keeps the
// answered memory nodes and writes the placement.
func TestMemoryOfEarlierAnswerStays(t *testing.T) {
	pod1, pod2 := pod("redis", 2, app("redis", 2)), pod("redis", 2, app("redis", 2), app("log", 2))
	whole := pod("redis", 2, workload.Container{Name: "redis"}, workload.Container{Name: "log"})
	whole.CPULimit, whole.CPURequest, whole.Scheduled, whole.MemoryLimit = 2000, 2000, 2000, gi
	initial, initial2 := pod1, pod2
	initial.Init = []workload.Container{app("init", 1)}
	initial2.Init = initial.Init
	one, two2 := []string{"redis", "1,9", "0"}, []string{"redis", "1,9", "0", "log", "6,14", "1"}
	for _, c := range []struct {
		name          string
		pod           workload.Pod
		parts         []string
		has           observed.Container
		mems, written string
	}{
		{"wider", pod1, one, found(t, "redis", "1,9", "1,9", "0-1"), "redis 0-1", "0-1"},
		{"written already", pod1, []string{"redis", "1,9", "0-1"}, found(t, "redis", "1,9", "1,9", "0-1"), "redis 0-1", ""},
		{"never wider", pod1, one, found(t, "redis", "1,9", "1,9", "0"), "redis 0", ""},
		{"moved since", pod1, one, found(t, "redis", "1,9", "2,10", "0-1"), "redis 0", ""},
		{"with borrowed CPUs", pod1, one, found(t, "redis", "1,9", "1-2,9", "0-1"), "redis 0-1", "0-1"},
		{"node that is gone", pod1, one, found(t, "redis", "1,9", "1,9", "0,2"), "redis 0", ""},
		{"one of two", pod2, two2, found(t, "redis", "1,9", "1,9", "0-1"), "log 1, redis 0-1", "1 0-1"},
		{"one set for all", whole, []string{"redis", "1,9", "0", "log", "1,9", "0"}, found(t, "redis", "1,9", "1,9", "0-1"), "log 0-1, redis 0-1", "0-1 0-1"},
		{"init container", initial, one, found(t, "init", "1,9", "1,9", "0-1"), "init 0-1, redis 0-1", "0-1"},
		{"init container of two", initial2, two2, found(t, "init", "1,6,9,14", "1,6,9,14", "0-1"), "init 0-1, log 1, redis 0", ""},
	} {
		for _, phase := range []observed.Phase{observed.Created, observed.Running} {
			t.Run(fmt.Sprint(c.name, " ", phase), func(t *testing.T) {
				n := place.New(two().facts(t))
				has := c.has
				if has.Phase = phase; phase == observed.Created {
					has.CPUs = cpuset.Set{} // its group does not exist yet
				}
				n.Pods.Observe(has)
				n.Pods.Put(placed(c.pod, c.parts...))
				written := ""
				for _, e := range n.Events() {
					if e.Annotation != nil {
						for _, name := range slices.Sorted(maps.Keys(e.Annotation.Containers)) {
							written = strings.TrimSpace(written + " " + e.Annotation.Containers[name].Mems)
						}
					}
				}
				equal(t, "written", written, c.written)
				for _, other := range c.pod.Containers {
					if other.Name != c.has.Name {
						create(t, n, "redis", other.Name)
					}
				}
				var all []string
				for _, d := range n.Desired() {
					all = append(all, d.Container+" "+d.Mems.String())
					if d.Container == "redis" && strings.Contains(d.Why, "memory nodes 0-1, because NUMA nodes 0 alone") != (c.written != "") {
						t.Errorf("why: %s", d.Why)
					}
				}
				slices.Sort(all)
				equal(t, "mems", strings.Join(all, ", "), c.mems)
			})
		}
	}
}

// The runtime makes a container while no agent runs. The next agent knows its pod first, and finds the container later.
func TestMemoryOfEarlierAnswerFoundLate(t *testing.T) {
	n := place.New(two().facts(t))
	n.Pods.Put(placed(pod("redis", 2, app("redis", 2)), "redis", "1,9", "0"))
	equal(t, "before", writtenMems(n.Events()), "")
	for _, written := range []string{"0-1", ""} {
		n.Pods.Observe(found(t, "redis", "1,9", "1,9", "0-1"))
		equal(t, "mems", n.Desired()[0].Mems.String(), "0-1")
		equal(t, "written", strings.TrimSpace(strings.Replace(writtenMems(n.Events()), "CPUPinned", "", 1)), written)
	}
}

// Where the kubelet sets memory nodes, the agent widens none, and leaves those of a placement as the scheduler counts
// them.
func TestMemoryNodesOfTheKubelet(t *testing.T) {
	f := two().facts(t)
	f.MemsOwner = "the kubelet sets memory nodes"
	n := place.New(f)
	beside := plain("web", 1, app("nginx", 1))
	beside.ScheduledMemory = 120 * gi
	n.Pods.Put(beside)
	n.Pods.Put(placed(pod("redis", 2, app("redis", 2)), "redis", "1,9", "0"))
	own := create(t, n, "redis", "redis").Own[0]
	equal(t, "answer", own.CPUs.String()+" "+own.Mems.String(), "1,9 ")
	equal(t, "written", writtenMems(n.Events()), "")
}
