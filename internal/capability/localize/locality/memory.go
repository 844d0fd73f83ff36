package locality

import (
	"github.com/berth-project/berth/internal/node/observed"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// Memory is the memory of a group by node.
type Memory struct {
	// Movable is anonymous and shared memory, and huge pages. File is page cache: it is counted separately, and never
	// moved.
	Movable, File observed.Bytes
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
	return m.Movable.Outside(local)
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

// Full is the ratio at which all memory is local.
const Full = 100
