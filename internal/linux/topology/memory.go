package topology

import (
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"time"

	"github.com/berth-project/berth/internal/value/table"
)

const (
	memoryEvery = 10 * time.Second
	// changeParts bounds insignificant changes: a change of less than 1/changeParts of a node's memory is ignored.
	// Otherwise a balloon with small changes would make every agent write its NodeTopology all the time.
	changeParts = 100
	// doubtParts bounds the difference between the nodes and the machine: 1/doubtParts of the memory.
	doubtParts = 10
)

// Memory observes the memory of a host's NUMA nodes, which virtio-mem, a balloon and hotplug change at run time. The
// zero value has no observation yet.
type Memory struct {
	// Version changes whenever the memory of a node changes by more than one percent, or its huge pages change.
	Version int
	// Doubt says in a sentence that the nodes and the machine differ, "" if they do not.
	Doubt string
	nodes map[int]nodeMemory // as of Version
	due   time.Duration      // time of the next observation
}

type nodeMemory struct {
	total int64
	pools []HugePages
}

// Look reads the memory below fsys, as Discover does, at most every ten seconds. A tree without NUMA nodes has one
// node, 0.
func (m *Memory) Look(fsys fs.FS, now time.Duration) {
	if m.nodes != nil && now < m.due {
		return
	}
	m.due = now + memoryEvery
	s := &source{fsys: fsys}
	nodes := s.memories()
	if m.nodes == nil || !maps.EqualFunc(m.nodes, nodes, nodeMemory.near) {
		m.nodes = nodes
		m.Version++
	}
	sum := int64(0)
	for _, n := range nodes {
		sum += n.total
	}
	m.Doubt = s.doubt(sum)
}

// memories returns the memory of each NUMA node.
func (s *source) memories() map[int]nodeMemory {
	ids, err := s.nodeIDs()
	if err != nil || ids.IsEmpty() {
		return map[int]nodeMemory{0: {total: s.memory(machineMemory)}}
	}
	nodes := make(map[int]nodeMemory, ids.Size())
	for id := range ids.All() {
		nodes[id] = s.nodeMemory(id)
	}
	return nodes
}

func (s *source) nodeMemory(id int) nodeMemory {
	return nodeMemory{s.memory(nodePath(id, "meminfo")), s.hugePages(id)}
}

// near reports whether a node has about the same memory as before, and exactly the same huge pages.
func (n nodeMemory) near(now nodeMemory) bool {
	return max(n.total-now.total, now.total-n.total) <= n.total/changeParts && slices.Equal(n.pools, now.pools)
}

// doubt returns a sentence if the sum of the nodes' memory, in bytes, does not match the machine's memory. It returns
// "" if one of the two is unknown. Linux changes both counts together (adjust_managed_page_count, mm/page_alloc.c).
// They differ only if another program provides a file, such as lxcfs in a container.
func (s *source) doubt(nodes int64) string {
	if _, known := s.text(machineMemory); !known || nodes == 0 {
		return ""
	}
	machine := s.memory(machineMemory)
	if machine == 0 || max(nodes-machine, machine-nodes) <= max(nodes, machine)/doubtParts {
		return ""
	}
	return fmt.Sprintf("the NUMA nodes have %s of memory together, and the machine %s (/proc/meminfo): what fits on a node is doubtful",
		table.Bytes(nodes), table.Bytes(machine))
}

const machineMemory = "proc/meminfo"
