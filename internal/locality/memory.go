package locality

import "github.com/berth-project/berth/internal/cpuset"

// Bytes are bytes by NUMA node id.
type Bytes []int64

// Memory is where the pages of a group are.
type Memory struct {
	// Movable is anonymous and shared memory, and huge pages. File is page cache: it
	// counts apart, and is never moved.
	Movable, File Bytes
}

// Ratio is how many per cent of the movable memory are on the local nodes, rounded down,
// and 100 where there is none.
func (m Memory) Ratio(local cpuset.Set) int {
	all := m.Movable.sum()
	if all == 0 {
		return full
	}
	return int(full * (all - m.Remote(local)) / all)
}

// Remote is how many bytes of movable memory are not on the local nodes.
func (m Memory) Remote(local cpuset.Set) int64 {
	var remote int64
	for node, n := range m.Movable {
		if !local.Contains(node) {
			remote += n
		}
	}
	return remote
}

// RemoteNodes are the nodes with movable memory that are not local.
func (m Memory) RemoteNodes(local cpuset.Set) cpuset.Set {
	var nodes cpuset.Set
	for node, n := range m.Movable {
		if n > 0 && !local.Contains(node) {
			nodes = nodes.Add(node)
		}
	}
	return nodes
}

func (b Bytes) sum() int64 {
	var all int64
	for _, n := range b {
		all += n
	}
	return all
}

// full is a ratio at which all memory is local.
const full = 100
