package observed

import "github.com/berth-project/berth/internal/value/cpuset"

// Bytes is a number of bytes for each NUMA node id.
type Bytes []int64

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

// Outside returns the number of bytes on all other nodes than these.
func (b Bytes) Outside(nodes cpuset.Set) int64 {
	var outside int64
	for node, n := range b {
		if !nodes.Contains(node) {
			outside += n
		}
	}
	return outside
}
