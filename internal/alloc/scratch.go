package alloc

import "github.com/berth-project/berth/internal/topology"

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
	// budget is what is left of the work that a decision may take; inexact says
	// that a search ended for want of it.
	budget  int
	inexact bool

	// single are the L3 domains that could hold everything.
	single []oneL3
	inL3   []lowTally

	// fast: the core terms follow from counts of cores.
	fast  bool
	table table
	seen  mask // sockets
	// What each L3 domain could contribute, and how much of it is good.
	capL3s, goodL3s []int
	// perSocket counts nodes.
	perSocket []int
	sorted    []int

	nodeList []int
	held     []int16
	parts    division
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

// budget is how much work one decision may take, all its searches together: a
// unit is some 5 ns, so that it ends after about a millisecond on any machine.
// Each step is charged by the loops that it runs. Machines of up to eight NUMA
// nodes with four L3 domains each stay far below; many nodes or L3 domains that
// are fragmented in unlike ways can have more sets than anyone can look at.
const budget = 200_000

// spend takes work off the budget and reports whether the search may go on: it
// may until it has found some answer.
func (s *Scratch) spend(work int) bool {
	s.budget -= work
	if s.budget >= 0 {
		return true
	}
	if s.nodes.listing {
		return false
	}
	if s.best.key.hi == noAnswer {
		return true
	}
	s.inexact = true
	return false
}
