package plan

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-project/berth/internal/value/cpuset"
	_ "github.com/berth-project/berth/test/chance" // fixes the cases of the properties
)

// sharing is a node with pinned groups, borrowing groups, and groups of the shared pool, flat or each inside a pod's
// group. CPUs reserved for a group belong to no other group; CPUs that it borrows also belong to the pool.
type sharing struct {
	names []string
	owner map[string]Owner
	// from and to are the CPUs that each group has exclusively, at the start and at the end.
	from, to map[string]cpuset.Set
	lists
}

const sharedCPUs = 10

// drawSharing draws two such states and the changes between them. A borrowing group has some CPUs of the pool in
// addition to its reserved CPUs. The reserved part stays, grows or shrinks, or moves as a whole if moves is set.
func drawSharing(t *rapid.T, moves bool) sharing {
	s := sharing{owner: map[string]Owner{}, from: map[string]cpuset.Set{}, to: map[string]cpuset.Set{}}
	for i := range rapid.IntRange(1, 3).Draw(t, "pinned") {
		s.add(fmt.Sprintf("p%d", i), OwnerPlace)
	}
	for i := range rapid.IntRange(1, 3).Draw(t, "shared") {
		s.add(fmt.Sprintf("s%d", i), OwnerPool)
	}
	s.start = s.drawState(t, "start", s.from, nil)
	var keep map[string]cpuset.Set
	if !moves {
		keep = s.from
	}
	s.end = s.drawState(t, "end", s.to, keep)
	var changes []Change
	for _, name := range s.names {
		if from, to := s.start.value(name), s.end.value(name); from != to {
			changes = append(changes, listed(s.owner[name], name, from, to))
		}
	}
	s.lists.names, s.changes = s.names, rapid.Permutation(changes).Draw(t, "changes")
	return s
}

func (s *sharing) add(name string, owner Owner) {
	s.names = append(s.names, name)
	s.owner[name] = owner
}

// drawState draws the CPUs of each group, and adds the reserved part to reserved. With keep, each group has at least
// one of its previously reserved CPUs.
func (s *sharing) drawState(t *rapid.T, label string, reserved, keep map[string]cpuset.Set) cpus {
	h := cpus{}
	ids := make([]int, sharedCPUs)
	for i := range ids {
		ids[i] = i
	}
	free, _ := cpuset.Of(ids...)
	for _, name := range s.names {
		if old, found := keep[name]; found && s.owner[name] == OwnerPlace {
			first, _ := old.Min()
			reserved[name] = cpuset.Set{}.Add(first)
			free = free.Remove(first)
		}
	}
	for _, name := range s.names {
		if s.owner[name] != OwnerPlace {
			continue
		}
		for range rapid.IntRange(1, 2).Draw(t, label+" reserved for "+name) {
			cpu := rapid.SampledFrom(slices.Collect(free.All())).Draw(t, label+" CPU of "+name)
			reserved[name], free = reserved[name].Add(cpu), free.Remove(cpu)
		}
	}
	for _, name := range s.names {
		switch {
		case s.owner[name] == OwnerPool:
			h[name] = free
		case rapid.Bool().Draw(t, label+": "+name+" borrows"):
			h[name] = reserved[name].Union(drawSubset(t, label+" borrowed by "+name, free, false))
		default:
			h[name] = reserved[name]
		}
	}
	return h
}

// broken reports a group that has a CPU which is reserved for another group: throughout, if that group has the CPU in
// both states, or from the write that assigns it.
func (s *sharing) broken(now cpus, given map[string]cpuset.Set) string {
	for a, own := range given {
		for _, b := range s.names {
			if shared := own.Intersect(now[b]); a != b && !shared.IsEmpty() {
				return fmt.Sprintf("%s has %s, which are %s's", b, shared, a)
			}
		}
	}
	return ""
}

// steps makes the changes in order, except those that fails selects, and checks each state.
func (s *sharing) steps(t *rapid.T, fails func(Change) bool) cpus {
	now := cpus{}
	maps.Copy(now, s.start)
	given := map[string]cpuset.Set{} // CPUs that belong to a group exclusively
	for name, cpus := range s.from {
		given[name] = cpus.Intersect(s.to[name])
	}
	if bad := s.broken(now, given); bad != "" {
		t.Fatalf("the model drew an illegal state: %s", bad)
	}
	for _, c := range Order(kinds(), s.changes) {
		if fails(c) {
			continue
		}
		before := now[c.Object]
		now.write(t, c)
		taken := now[c.Object].Difference(before)
		for _, name := range s.names {
			if own := s.from[name].Difference(s.end[name]).Intersect(now[name]); name != c.Object && own.Intersects(taken) {
				t.Fatalf("after %s of %v: %s is to leave %s, which were reserved for it", c, s.changes, name, own.Intersect(taken))
			}
			if own := s.to[c.Object].Intersect(taken); name != c.Object && own.Intersects(now[name]) {
				t.Fatalf("after %s of %v: it comes to %s, which %s has still", c, s.changes, own.Intersect(now[name]), name)
			}
		}
		if bad := s.broken(now, given); bad != "" {
			t.Fatalf("after %s of %v: %s", c, s.changes, bad)
		}
	}
	return now
}

// jumpsInRing reports whether groups exchange all of their CPUs, which no order can do without an overlap.
func (s *sharing) jumpsInRing() bool {
	for _, name := range s.names {
		if !s.start[name].Intersects(s.end[name]) {
			return true
		}
	}
	return false
}

// TestOrderOfBorrowedLists checks the order after each write. A CPU is reserved for a group only after its borrowers
// and the shared pool have left it, and goes to them only after its former owner has left.
func TestOrderOfBorrowedLists(t *testing.T) {
	for name, moves := range map[string]bool{"reserved parts stay": false, "all moves": true} {
		t.Run(name, rapid.MakeCheck(func(t *rapid.T) {
			s := drawSharing(t, moves)
			if s.jumpsInRing() {
				return
			}
			now := s.steps(t, func(Change) bool { return false })
			for _, name := range s.names {
				if now.value(name) != s.end.value(name) {
					t.Fatalf("%s ends at %s, want %s", name, now.value(name), s.end.value(name))
				}
			}
		}))
	}
}

// TestNeedsOfBorrowedLists checks that omitting a failed change, and the changes that need it, never leaves two groups
// on CPUs that are reserved for one of them.
func TestNeedsOfBorrowedLists(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSharing(t, true)
		if s.jumpsInRing() {
			return
		}
		var left []Change
		s.steps(t, func(c Change) bool {
			needs := slices.ContainsFunc(left, func(f Change) bool { return Needs(kinds(), c, f) })
			if needs || rapid.IntRange(0, 3).Draw(t, "fails") == 0 {
				left = append(left, c)
				return true
			}
			return false
		})
	})
}

// TestBorrowingHoldsNothingUp checks that a borrower which moves to another core does not delay a group that uses
// neither core.
func TestBorrowingHoldsNothingUp(t *testing.T) {
	moved := listed(OwnerPlace, "a", "0-2", "0-1,3")
	for _, c := range []Change{
		listed(OwnerPlace, "b", "8", "8-9"),
		listed(OwnerPool, "c", "2-7", "2-8"),
		listed(OwnerPlace, "d", "10", "3,10"), // borrows what the other group moves to, which both may have
	} {
		if Needs(kinds(), c, moved) {
			t.Errorf("%s is said to need %s", c, moved)
		}
	}
	if !Needs(kinds(), listed(OwnerPlace, "d", "10", "2,10"), moved) {
		t.Error("a group comes to a CPU before its borrower left")
	}
}
