package locality

import (
	"slices"

	"github.com/berth-project/berth/internal/cpuset"
)

// NodeMemory is the memory of one NUMA node, in bytes.
type NodeMemory struct {
	// Total is all of it. Free is what is free to processes: without what zones keep for
	// requests that can use no other zone.
	Total, Free int64
	// InactiveFile is page cache that was not used for a while; Dirty has to be written
	// before it can be dropped, wherever it is.
	InactiveFile, Dirty int64
	// Min, Low and High are the kernel's watermarks: below Low it wakes the reclaim in the
	// background, which goes on up to High; below Min whoever asks for memory reclaims.
	Min, Low, High int64
	// Swap is how much swap space of the host is free.
	Swap int64
}

const (
	spareShare = 50 // one part of so many of a node stays unused: 2 per cent
	spareLeast = 64 << 20
	cacheShare = 2 // one part of so many of the cache that can be dropped makes room
)

// Room is how many bytes may move to the node, and negative where it has too few already.
// Unused is how much of their memory limits the groups that are bound to the node have
// not used yet. Free memory alone hardly ever is enough, because cache fills a node: half
// of that which is inactive and clean counts as room. But where the host can swap, the kernel
// may swap out as well as drop cache: there cache is no room.
func (n NodeMemory) Room(unused int64) int64 {
	clean := max(0, n.InactiveFile-n.Dirty)
	if n.Swap > 0 {
		clean = 0
	}
	return n.Free + clean/cacheShare - n.High - max(n.Total/spareShare, spareLeast) - unused
}

// Allows says whether one call may take so many bytes now: what stays free is at least
// midway between Min and Low. There the kernel reclaims in the background, and no process
// has to.
func (n NodeMemory) Allows(bytes int64) bool { return bytes <= n.Headroom() }

// Headroom is the most that Allows allows, in bytes. It can be negative.
func (n NodeMemory) Headroom() int64 { return n.Free - (n.Min+n.Low)/2 }

// Claim is what a group may still take by its memory limit, and of which nodes.
type Claim struct {
	Nodes cpuset.Set
	Bytes int64
}

// Unused is how much memory claims may still take, by node: of each of its nodes as much as of the
// others. A claim to all nodes with memory is bound to none of them.
func Unused(claims []Claim, memory cpuset.Set) Bytes {
	var left Bytes
	for _, c := range claims {
		nodes := c.Nodes.Intersect(memory)
		if nodes.IsEmpty() || nodes == memory {
			continue
		}
		for node := range nodes.All() {
			left = append(left, slices.Repeat(Bytes{0}, max(node+1-len(left), 0))...)
			left[node] += c.Bytes / int64(nodes.Size())
		}
	}
	return left
}
