package schedule

import (
	"testing"
	"unique"
	"unsafe"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-project/berth/internal/capability/place/placement"
)

// An answer for the same state comes from the memo, without an allocation.
func TestMemo(t *testing.T) {
	inCluster(t, `{"staleAfterSeconds":0}`, func(t *testing.T, c *cluster) {
		c.node("n1")
		c.placed(c.pod("there", 20))
		for _, test := range []struct {
			name string
			pod  *v1.Pod
		}{
			{"pinned", c.pod("a", 4)},
			{"pinned and refused", c.pod("b", 20)},
			{"ordinary", c.ordinary("o", "1")},
		} {
			a := c.filter(test.pod)
			n, info := c.plugin.core.nodes.find("n1"), c.handle.snapshot["n1"]
			misses, left := n.memo.misses, n.left.Load()
			allocations := testing.AllocsPerRun(100, func() { c.plugin.Filter(c.ctx, a.state, test.pod, info) })
			if n.memo.misses != misses || n.left.Load() != left {
				t.Errorf("%s: worked out again", test.name)
			}
			if allocations != 0 {
				t.Errorf("%s: a remembered answer allocates %v times", test.name, allocations)
			}
		}
	})
}

// Every change that an answer depends on invalidates the memo.
func TestMemoNoticesChanges(t *testing.T) {
	inCluster(t, `{"staleAfterSeconds":0}`, func(t *testing.T, c *cluster) {
		c.node("n1")
		pod := c.pod("a", 20)
		fits := func(want bool, when string) {
			t.Helper()
			if got := c.filter(pod).status.IsSuccess(); got != want {
				t.Errorf("%s: fits %v, want %v", when, got, want)
			}
		}
		fits(true, "on an empty node")
		other := c.pod("b", 20)
		reserved := c.reserve(c.filter(other))
		fits(false, "beside a reservation")
		c.giveUp(reserved)
		fits(true, "after it was given up")
		c.placed(other)
		fits(false, "beside a bound pod")
		c.remove(other)
		fits(true, "after it went")
		small := machine()
		small.Reserved = small.Nodes[0].CPUs
		c.topology("n1", small)
		c.settle()
		fits(false, "with half the node reserved")
		c.topology("n1", machine())
		c.settle()
		fits(true, "with all of it again")
	})
}

// A binding as reserved changes the generation of the NodeInfo, but no answer. The memo stays valid.
func TestMemoOutlivesGenerations(t *testing.T) {
	inCluster(t, `{"staleAfterSeconds":0}`, func(t *testing.T, c *cluster) {
		c.node("n1")
		reserved := c.reserve(c.filter(c.pod("a", 4)))
		c.filter(c.pod("b", 4))
		n, generation := c.plugin.core.nodes.find("n1"), c.handle.snapshot["n1"].generation
		misses := n.memo.misses
		c.finish(reserved)
		c.filter(c.pod("c", 4))
		if c.handle.snapshot["n1"].generation == generation {
			t.Fatal("the binding made no new generation")
		}
		if n.memo.misses != misses {
			t.Error("worked out again")
		}
		c.placed(c.pod("d", 4))
		c.filter(c.pod("e", 4))
		if n.memo.misses == misses {
			t.Error("not worked out again after another pod came")
		}
	})
}

// Two observations of one generation with different sums share no answer. An answer for the first observation must not
// survive into a later generation as if it came from the second.
func TestMemoOfOneGeneration(t *testing.T) {
	var m memo
	shape := unique.Make("shape")
	var empty, taken placement.Occupancy
	taken.ExtraMilli = 1000
	m.renew(moment{generation: 1}, placement.Node{}, &empty)
	m.keep(&result{at: moment{generation: 1}, shape: shape})
	m.renew(moment{generation: 1}, placement.Node{}, &taken)
	if m.find(moment{generation: 1}, shape) != nil {
		t.Error("an answer is taken for that of another state")
	}
	m.renew(moment{generation: 2}, placement.Node{}, &taken)
	if m.find(moment{generation: 2}, shape) != nil {
		t.Error("an answer outlives its state")
	}
	m.keep(&result{at: moment{generation: 2}, shape: shape})
	m.renew(moment{generation: 3}, placement.Node{}, &taken)
	if m.find(moment{generation: 3}, shape) == nil {
		t.Error("an answer does not outlive a generation that changes nothing")
	}
}

// A node answers more shapes than its memo can hold.
func TestMemoForgetsTheOldest(t *testing.T) {
	inCluster(t, `{"staleAfterSeconds":0}`, func(t *testing.T, c *cluster) {
		c.node("n1")
		for round := range 2 {
			for cpus := 1; cpus <= 2*memoShapes; cpus++ {
				if a := c.filter(c.spec("a", cpus)); !a.status.IsSuccess() {
					t.Fatalf("round %d: %d CPUs: %s", round, cpus, a.status.Message())
				}
			}
		}
	})
}

// TestSizes checks the promised memory: 2 KiB for a node without placements. The informer's objects and the maps use
// some hundred bytes of them.
func TestSizes(t *testing.T) {
	if got := unsafe.Sizeof(node{}) + unsafe.Sizeof(machineOf{}) + unsafe.Sizeof(basis{}); got > 1600 {
		t.Errorf("a node takes %d bytes", got)
	}
	if got := unsafe.Sizeof(record{}); got > 192 {
		t.Errorf("a pinned pod takes %d bytes", got)
	}
}

// The memo works in the cycle of a pod group too. Nodes change there without a new generation, so a pod that is added
// to a node or removed from it must count as a new state.
func TestMemoInAPodGroup(t *testing.T) {
	inCluster(t, `{"staleAfterSeconds":0}`, func(t *testing.T, c *cluster) {
		c.node("n1")
		pinned, ordinary := c.pod("pinned", 20), c.ordinary("ordinary", "20")
		inGroup := func(pod *v1.Pod) *attempt {
			a := &attempt{state: newState(), pod: pod.DeepCopy(), refusals: map[string]int{}}
			a.state.group = true
			return c.choose(a)
		}
		c.look()
		n, info := c.plugin.core.nodes.find("n1"), c.handle.snapshot["n1"]
		for _, pod := range []*v1.Pod{pinned, ordinary} {
			a := inGroup(pod)
			misses, left := n.memo.misses, n.left.Load()
			c.plugin.Filter(c.ctx, a.state, a.pod, info)
			if !a.status.IsSuccess() || n.memo.misses != misses || n.left.Load() != left {
				t.Errorf("%s: %v, worked out again", pod.Name, a.status)
			}
		}
		generation := info.generation
		c.reserve(inGroup(ordinary))
		if inGroup(pinned).status.IsSuccess() {
			t.Error("20 CPUs for a pinned pod beside a request of 20 of 32")
		}
		if err := info.RemovePod(c.plugin.core.background.log, ordinary); err != nil {
			t.Fatal(err)
		}
		info.generation = generation
		a := c.reserve(inGroup(pinned))
		if inGroup(ordinary).status.IsSuccess() {
			t.Error("a request of 20 beside 20 pinned CPUs of 32")
		}
		c.plugin.Unreserve(c.ctx, a.state, a.pod, "n1")
		if err := info.RemovePod(c.plugin.core.background.log, a.pod); err != nil {
			t.Fatal(err)
		}
		info.generation = generation
		if again := inGroup(ordinary); !again.status.IsSuccess() {
			t.Errorf("after the group: %s", again.status.Message())
		}
	})
}
