package locality

import (
	"slices"

	"github.com/berth-project/berth/internal/node/observed"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// NodeMemory is the memory of one NUMA node, in bytes.
type NodeMemory struct {
	// Total is all memory. Free is the memory that is free for processes: without the zones' reserve for requests that
	// can use no other zone.
	Total, Free int64
	// InactiveFile is page cache that was not used for a while. Dirty is page cache, active or not, that must be
	// written before it can be dropped.
	InactiveFile, Dirty int64
	// Min, Low and High are the kernel's watermarks. Below Low the kernel wakes the background reclaim, which continues
	// up to High. Below Min each process that allocates memory reclaims.
	Min, Low, High int64
	// Swap is the free swap space of the host.
	Swap int64
}

const (
	spareShare = 50 // 1/spareShare of a node stays unused: 2 per cent
	spareLeast = 64 << 20
	cacheShare = 2 // 1/cacheShare of the cache that can be dropped counts as room
)

// Room returns how many bytes may move to the node, negative if the node has too few already. unused is the unused part
// of the memory limits of the groups that are bound to the node. Free memory alone is hardly ever enough, because cache
// fills a node: half of the inactive and clean cache counts as room. On a host that can swap, cache is no room: the
// kernel may swap out as well as drop cache.
func (n NodeMemory) Room(unused int64) int64 {
	clean := n.clean()
	if n.Swap > 0 {
		clean = 0
	}
	return n.Free + clean/cacheShare - n.High - max(n.Total/spareShare, spareLeast) - unused
}

// Available returns the memory that is free for processes, or that holds clean file pages not used lately, in bytes.
func (n NodeMemory) Available() int64 { return n.Free + n.clean() }

// clean returns the inactive page cache that the kernel can drop without a write. Dirty counts active pages too.
func (n NodeMemory) clean() int64 { return max(0, n.InactiveFile-n.Dirty) }

// Allows reports whether one call may use this many bytes now: at least the midpoint between Min and Low stays free. At
// that level the kernel reclaims in the background, and no process has to reclaim.
func (n NodeMemory) Allows(bytes int64) bool { return bytes <= n.Headroom() }

// Headroom returns the most that Allows allows, in bytes. It can be negative.
func (n NodeMemory) Headroom() int64 { return n.Free - (n.Min+n.Low)/2 }

// Claim is how much a group may still use by its memory limit, and on which nodes.
type Claim struct {
	Nodes cpuset.Set
	Bytes int64
}

// Unused returns how much memory claims may still use, by node. A claim is divided evenly among its nodes. A claim to
// all nodes with memory is bound to no node.
func Unused(claims []Claim, memory cpuset.Set) observed.Bytes {
	var left observed.Bytes
	for _, c := range claims {
		nodes := c.Nodes.Intersect(memory)
		if nodes.IsEmpty() || nodes == memory {
			continue
		}
		for node := range nodes.All() {
			left = append(left, slices.Repeat(observed.Bytes{0}, max(node+1-len(left), 0))...)
			left[node] += c.Bytes / int64(nodes.Size())
		}
	}
	return left
}
