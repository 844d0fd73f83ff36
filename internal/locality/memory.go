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
	return Ratio(m.Movable.Sum(), m.Remote(local))
}

// Ratio is how many per cent of all bytes are not remote, rounded down, 100 of none.
func Ratio(all, remote int64) int {
	if all == 0 {
		return Full
	}
	return int(Full * (all - remote) / all)
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

// Sum is how many bytes there are on all nodes.
func (b Bytes) Sum() int64 {
	var all int64
	for _, n := range b {
		all += n
	}
	return all
}

// At is how many bytes there are on a node.
func (b Bytes) At(node int) int64 {
	if node < len(b) {
		return b[node]
	}
	return 0
}

// Full is a ratio at which all memory is local.
const Full = 100
