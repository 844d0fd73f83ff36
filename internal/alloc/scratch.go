package alloc

import (
	"github.com/berth-project/berth/internal/cpuset"
	"github.com/berth-project/berth/internal/topology"
)

// Scratch is the memory of Allocate, kept from call to call so that none is
// allocated. The zero value is ready. It belongs to one goroutine at a time.
type Scratch struct {
	avail []uint8 // of each core: CPUs that may be given out
	cap   []int   // of each cell: CPUs that it could contribute
	nodes []int   // chosen nodes
	l3s   []int   // chosen L3 domains
	best  found
	low   []entry
	high  []entry
	each  []cpuset.Set
	ids   []topology.L3ID
	order []int
}

// found is the best answer so far.
type found struct {
	ok     bool
	vector Vector
	cpus   mask
}

func resize[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	s = s[:n]
	clear(s)
	return s
}
