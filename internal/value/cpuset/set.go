// Package cpuset implements sets of CPUs (or of memory nodes) as plain values.
//
// A Set is an array of 16 machine words with one bit per CPU, for the CPUs 0 to 1,023. A Set is therefore comparable
// with ==, usable as a map key and safe to share between goroutines, and no set operation allocates. The zero value is
// the empty set.
//
// The package reads and writes two text formats of the kernel: the list ("0-3,8", in all *list files and cpuset.cpus)
// and the mask ("ff,00000000,ffffffff", in the *map files). It refuses all other text with a SyntaxError, which states
// the byte and the expected input there. It never drops a part of the input.
package cpuset

import (
	"fmt"
	"iter"
	"math/bits"
)

// Max is the number of CPUs that a Set can hold: ids are 0 to Max-1. The kernel's cpu_set_t for user space has the same
// size.
const Max = 1024

const (
	wordBits = 64
	words    = Max / wordBits
)

// Set is a set of CPU ids in 0 to Max-1. The zero value is empty. Two sets are equal exactly when they are ==.
type Set struct {
	bits [words]uint64
}

// RangeError reports a CPU id that is outside the range of a Set.
type RangeError struct {
	CPU int
}

// Error states the id and the allowed range.
func (e *RangeError) Error() string {
	return fmt.Sprintf("CPU %d: allowed: 0 to %d", e.CPU, Max-1)
}

// Of returns the set of the given CPUs, in any order, with or without duplicates. A CPU outside 0 to Max-1 is a
// *RangeError.
func Of(cpus ...int) (Set, error) {
	var s Set
	for _, cpu := range cpus {
		if !valid(cpu) {
			return Set{}, &RangeError{CPU: cpu}
		}
		s.bits[cpu/wordBits] |= bit(cpu)
	}
	return s, nil
}

// Contains reports whether cpu is in the set. It is false for an id outside 0 to Max-1.
func (s Set) Contains(cpu int) bool {
	return valid(cpu) && s.bits[cpu/wordBits]&bit(cpu) != 0
}

// Add returns the set with cpu. Add ignores an id outside 0 to Max-1: check untrusted ids with Of.
func (s Set) Add(cpu int) Set {
	if valid(cpu) {
		s.bits[cpu/wordBits] |= bit(cpu)
	}
	return s
}

// Remove returns the set without cpu.
func (s Set) Remove(cpu int) Set {
	if valid(cpu) {
		s.bits[cpu/wordBits] &^= bit(cpu)
	}
	return s
}

// Union returns the CPUs that are in s, in t or in both.
func (s Set) Union(t Set) Set {
	for i := range s.bits {
		s.bits[i] |= t.bits[i]
	}
	return s
}

// Intersect returns the CPUs that are in both s and t.
func (s Set) Intersect(t Set) Set {
	for i := range s.bits {
		s.bits[i] &= t.bits[i]
	}
	return s
}

// Difference returns the CPUs of s that are not in t.
func (s Set) Difference(t Set) Set {
	for i := range s.bits {
		s.bits[i] &^= t.bits[i]
	}
	return s
}

// IsSubsetOf reports whether every CPU of s is in t. The empty set is a subset of every set.
func (s Set) IsSubsetOf(t Set) bool {
	for i := range s.bits {
		if s.bits[i]&^t.bits[i] != 0 {
			return false
		}
	}
	return true
}

// Intersects reports whether s and t have a CPU in common.
func (s Set) Intersects(t Set) bool {
	for i := range s.bits {
		if s.bits[i]&t.bits[i] != 0 {
			return true
		}
	}
	return false
}

// IsEmpty reports whether the set holds no CPU.
func (s Set) IsEmpty() bool { return s == Set{} }

// Size returns the number of CPUs in the set, 0 to Max.
func (s Set) Size() int {
	n := 0
	for _, w := range s.bits {
		n += bits.OnesCount64(w)
	}
	return n
}

// Min returns the lowest CPU, and false for the empty set.
func (s Set) Min() (int, bool) {
	for i, w := range s.bits {
		if w != 0 {
			return i*wordBits + bits.TrailingZeros64(w), true
		}
	}
	return 0, false
}

// Max returns the highest CPU, and false for the empty set.
func (s Set) Max() (int, bool) {
	for i := words - 1; i >= 0; i-- {
		if w := s.bits[i]; w != 0 {
			return i*wordBits + bits.Len64(w) - 1, true
		}
	}
	return 0, false
}

// All yields the CPUs in ascending order.
func (s Set) All() iter.Seq[int] {
	return func(yield func(int) bool) {
		for i, w := range s.bits {
			for ; w != 0; w &= w - 1 {
				if !yield(i*wordBits + bits.TrailingZeros64(w)) {
					return
				}
			}
		}
	}
}

// Compare orders sets by their lowest CPUs: it is negative when s comes before t, and 0 when they are equal. The empty
// set comes last.
func (s Set) Compare(t Set) int {
	for i := range s.bits {
		diff := s.bits[i] ^ t.bits[i]
		if diff == 0 {
			continue
		}
		if s.bits[i]&(diff&-diff) != 0 {
			return -1
		}
		return 1
	}
	return 0
}

// fill adds lo to hi, which the caller has checked.
func (s *Set) fill(lo, hi int) {
	for cpu := lo; cpu <= hi; cpu++ {
		s.bits[cpu/wordBits] |= bit(cpu)
	}
}

func valid(cpu int) bool { return cpu >= 0 && cpu < Max }

func bit(cpu int) uint64 { return 1 << (uint(cpu) % wordBits) }
