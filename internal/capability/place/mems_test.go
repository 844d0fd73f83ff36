package place_test

import (
	"slices"
	"testing"

	"github.com/berth-project/berth/internal/capability/place"
	"github.com/berth-project/berth/internal/capability/place/alloc"
	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/node/observed"
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
		kept  = "; NUMA nodes 0 have less memory than is bound to them: it keeps them, as its memory is there"
		wider = "; memory nodes 0-1: NUMA nodes 0 of its placement are not known to have room"
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
			n.SetFacts(c.after)
			n.Events()
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

// A pod that this agent placed and of which nothing runs gets all memory nodes when its node shrinks.
func TestMemoryShrinksUnderOwnDecision(t *testing.T) {
	n := place.New(two().facts(t))
	p := pod("redis", 2, app("redis", 2))
	p.Containers[0].MemoryLimit = 20 * gi
	n.Pods.Put(p)
	before := create(t, n, "redis", "redis").Own[0].Mems.String()
	n.Pods.Remove("redis/redis")
	n.SetFacts(shrunk(t, 16, 0))
	after := create(t, n, "redis", "redis").Own[0].Mems.String()
	equal(t, "mems before and after", before+" "+after, "0 0-1")
	holds(t, "why", n.Snapshot().Rows[0].Why, "memory nodes 0-1: NUMA nodes 0 of its placement are not known to have room")
}
