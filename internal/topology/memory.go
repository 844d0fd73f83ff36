package topology

import (
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"time"

	"github.com/berth-project/berth/internal/table"
)

const (
	memoryEvery = 10 * time.Second
	// changeParts is one part of so many of a node's memory: a smaller change is none. A
	// balloon that breathes would have every agent write its NodeTopology all the time.
	changeParts = 100
	// doubtParts is how much node and machine may differ: one part of so many.
	doubtParts = 10
)

// Memory follows how much memory the NUMA nodes of a host have, which virtio-mem, a balloon
// and hotplug change while it runs. The zero value has not looked yet.
type Memory struct {
	// Version is another one whenever the memory of a node is another one than before, by more
	// than one per cent, or its huge pages are.
	Version int
	// Doubt says in a sentence that the nodes and the machine differ, "" where they do not.
	Doubt string
	nodes map[int]nodeMemory // as of Version
	due   time.Duration      // the next look
}

type nodeMemory struct {
	total int64
	pools []HugePages
}

// Look looks below fsys, as Discover does, every ten seconds. A tree without NUMA nodes has
// one, 0.
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

// memories returns what each NUMA node has.
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

// near says whether a node still has about what it had, and the very huge pages.
func (n nodeMemory) near(now nodeMemory) bool {
	return max(n.total-now.total, now.total-n.total) <= n.total/changeParts && slices.Equal(n.pools, now.pools)
}

// doubt says that NUMA nodes with so many bytes together are not the machine. Where one of the
// two is not known it says nothing. Linux counts both at once (adjust_managed_page_count,
// mm/page_alloc.c), so that they differ where another program answers for a file, such as
// lxcfs in a container.
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
