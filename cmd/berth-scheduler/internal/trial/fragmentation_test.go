package trial

import (
	"strings"
	"testing"
)

// TestConditionSaysFragmentation checks the PodScheduled condition of a pod that waits because of fragmentation. After
// the nodes' reasons, it says how many CPUs the pod lacks.
func TestConditionSaysFragmentation(t *testing.T) {
	c := newCluster(t)
	c.addMachine("n0", small())
	c.begin()
	c.create(oneNode(pinned("a", 8, 8)))
	c.bound("a")
	c.create(oneNode(pinned("b", 8, 8)))
	c.bound("b")
	c.create(oneNode(pinned("c", 6, 6)))
	got := c.pending("c")
	for _, want := range []string{
		"0/1 nodes are available: 1 node(s) had fewer than 6 free CPUs in one NUMA node. ",
		"pending by fragmentation: node n0 has 6 free CPUs, but fewer than 6 free CPUs in one NUMA node: the most there are is 4 (2 missing)",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("c waits because %q, want %q", got, want)
		}
	}
}
