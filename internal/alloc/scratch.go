package alloc

import (
	"github.com/berth-project/berth/internal/cpuset"
	"github.com/berth-project/berth/internal/topology"
)

// Scratch is the memory of Allocate, kept from call to call so that a call
// allocates none. The zero value is ready. It belongs to one goroutine at a
// time.
type Scratch struct {
	m        *Machine
	p        problem
	eligible eligible
	// free CPUs of each domain, eligible or not.
	freeNodes, freeL3s, freeSockets []int

	nodes nodeSearch
	l3s   l3Search
	best  best
	// steps is what is left of the budget of a search; inexact says that one
	// used it up.
	steps   int
	inexact bool

	// fast: the core terms are told by counts of cores.
	fast   bool
	table  table
	seen   mask // sockets
	capL3s []int
	// perSocket counts nodes.
	perSocket []int
	sorted    []int

	nodeList []int
	held     []int16
	each     []cpuset.Set
	order    []int
	ids      []topology.L3ID
}

// resize returns a cleared slice of n elements, in the memory of s if it is
// large enough.
func resize[T any](s []T, n int) []T {
	s = grow(s, n)
	clear(s)
	return s
}

// grow is resize without clearing.
func grow[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}

// growKeep returns a slice of at least n elements with those of s.
func growKeep[T any](s []T, n int) []T {
	for len(s) < n {
		var zero T
		s = append(s, zero)
	}
	return s
}

// budget is how many steps a search may take. On machines of up to eight NUMA
// nodes it is never used up; one of 64 can have more sets of nodes than anyone
// can look at.
const budget = 1 << 15
