package alloc

import "github.com/berth-project/berth/internal/linux/topology"

// Scratch is the memory of Allocate, reused from call to call so that a call allocates none. The zero value is ready.
// One goroutine at a time may use it.
type Scratch struct {
	p        problem
	eligible eligible
	search   search
	nodes    nodeSearch
	// single are the L3 domains that could hold the whole answer.
	single []oneL3
	parts  division
	ids    []topology.L3ID
	spare  *Scratch
}

// Spare returns a second Scratch, always the same, for a search beside an answer that is still needed.
func (s *Scratch) Spare() *Scratch {
	if s.spare == nil {
		s.spare = new(Scratch)
	}
	return s.spare
}

// resize returns a cleared slice of n elements. It reuses the memory of s if that is large enough.
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

// growKeep returns a slice of at least n elements that begins with the elements of s.
func growKeep[T any](s []T, n int) []T {
	for len(s) < n {
		var zero T
		s = append(s, zero)
	}
	return s
}
