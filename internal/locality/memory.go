package locality

import "github.com/berth-project/berth/internal/cpuset"

// Bytes is a number of bytes for each NUMA node id.
type Bytes []int64

// Memory is the memory of a group by node.
type Memory struct {
	// Movable is anonymous and shared memory, and huge pages. File is page cache: it is counted separately, and never
	// moved.
	Movable, File Bytes
}

// Ratio returns the percentage of the movable memory on the local nodes, rounded down, 100 if there is none.
func (m Memory) Ratio(local cpuset.Set) int {
	return Ratio(m.Movable.Sum(), m.Remote(local))
}

// Ratio returns the percentage of all bytes that is not remote, rounded down, 100 for no bytes.
func Ratio(all, remote int64) int {
	if all == 0 {
		return Full
	}
	return int(Full * (all - remote) / all)
}

// Remote returns how many bytes of movable memory are not on the local nodes.
func (m Memory) Remote(local cpuset.Set) int64 {
	var remote int64
	for node, n := range m.Movable {
		if !local.Contains(node) {
			remote += n
		}
	}
	return remote
}

// RemoteNodes returns the nodes with movable memory that are not local.
func (m Memory) RemoteNodes(local cpuset.Set) cpuset.Set {
	var nodes cpuset.Set
	for node, n := range m.Movable {
		if n > 0 && !local.Contains(node) {
			nodes = nodes.Add(node)
		}
	}
	return nodes
}

// Sum returns the number of bytes on all nodes.
func (b Bytes) Sum() int64 {
	var all int64
	for _, n := range b {
		all += n
	}
	return all
}

// At returns the number of bytes on a node.
func (b Bytes) At(node int) int64 {
	if node < len(b) {
		return b[node]
	}
	return 0
}

// Full is the ratio at which all memory is local.
const Full = 100
