package isolate

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/value/cpuset"
	"github.com/berth-project/berth/test/recorded"
)

// subset draws some of the CPUs of a set.
func subset(t *rapid.T, of cpuset.Set, what string) cpuset.Set {
	var some cpuset.Set
	odds := rapid.IntRange(0, 8).Draw(t, what)
	for cpu := range of.All() {
		if rapid.IntRange(0, 8).Draw(t, what) < odds {
			some = some.Add(cpu)
		}
	}
	return some
}

// TestMovableOfRecordedMachines checks, on every recorded machine, that the movable cores are exactly the whole cores
// without a thread that is taken or not effective.
func TestMovableOfRecordedMachines(t *testing.T) {
	for name, top := range recorded.Machines(t) {
		t.Run(name, func(t *testing.T) {
			if all := Movable(top, top.Online, cpuset.Set{}); cpusOf(all) != top.Online {
				t.Errorf("of %s only %s can move", top.Online, cpusOf(all))
			}
			rapid.Check(t, func(t *rapid.T) {
				effective, taken := subset(t, top.Online, "effective"), subset(t, top.Online, "taken")
				movable := Movable(top, effective, taken)
				all := cpusOf(movable)
				for _, c := range top.Cores {
					within := c.CPUs.IsSubsetOf(effective.Difference(taken))
					if within != c.CPUs.IsSubsetOf(all) || !within && c.CPUs.Intersects(all) {
						t.Fatalf("core %d with %s: movable are %s of %s without %s", c.ID, c.CPUs, all, effective, taken)
					}
				}
				for _, c := range movable {
					if c.Whole != wholeDomain(top, c, all) {
						t.Fatalf("core %d: whole %v", c.ID, c.Whole)
					}
				}
			})
		})
	}
}

// wholeDomain reports whether every core that shares an L3 (or a node, without an L3) is movable.
func wholeDomain(top *topology.Topology, c Core, all cpuset.Set) bool {
	for _, other := range top.Cores {
		if domainOf(other) == c.Domain && !other.CPUs.IsSubsetOf(all) {
			return false
		}
	}
	return true
}

// TestGrowthOnRecordedMachines checks the order in which offline work gets cores: within its domains before another
// domain, whole domains first, and returned in reverse order.
func TestGrowthOnRecordedMachines(t *testing.T) {
	for name, top := range recorded.Machines(t) {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				movable := Movable(top, top.Online, subset(t, top.Online, "taken"))
				var path [][]Core
				var held []Core
				for size := range len(movable) + 1 {
					before := held
					held = resize(held, movable, size)
					if len(held) != size || !slices.Equal(before, held[:len(before)]) {
						t.Fatalf("%d cores after %d, which are others", len(held), len(before))
					}
					if size > 0 {
						checkStep(t, before, movable, held[size-1])
					}
					path = append(path, held)
				}
				for size := len(movable); size >= 0; size-- {
					if held = resize(held, movable, size); !slices.Equal(held, path[size]) {
						t.Fatalf("back at %d cores: %v, were %v", size, held, path[size])
					}
				}
			})
		})
	}
}

// checkStep compares the chosen core with every other core that could have been chosen.
func checkStep(t *rapid.T, held, movable []Core, took Core) {
	mine := func(c Core) bool { return slices.ContainsFunc(held, func(h Core) bool { return h.Domain == c.Domain }) }
	for _, other := range movable {
		switch {
		case has(held, other.ID) || other.ID == took.ID:
		case mine(other) && !mine(took):
			t.Fatalf("took core %d of another domain, and core %d is left in its own", took.ID, other.ID)
		case len(held) > 0 && !mine(took) && !took.Whole && other.Whole:
			t.Fatalf("took core %d of a domain with pinned cores, and that of core %d is free as a whole", took.ID, other.ID)
		}
	}
}

// TestKeep checks that cores which are no longer movable are lost, and that the other cores stay in their order.
func TestKeep(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		top := twoDomains()
		movable := Movable(top, top.Online, cpuset.Set{})
		held := resize(nil, movable, rapid.IntRange(0, len(movable)).Draw(t, "size"))
		left := Movable(top, top.Online, subset(t, top.Online, "taken"))
		kept := keep(held, left)
		at := 0
		for _, c := range held {
			if !has(left, c.ID) {
				continue
			}
			if at >= len(kept) || kept[at].ID != c.ID {
				t.Fatalf("kept %v of %v", kept, held)
			}
			at++
		}
		if at != len(kept) {
			t.Fatalf("kept %v of %v", kept, held)
		}
	})
}

// twoDomains returns a machine with two L3 domains of four cores, with two threads each.
func twoDomains() *topology.Topology {
	top := &topology.Topology{}
	for i := range 8 {
		cpus := cpuset.Set{}.Add(i).Add(i + 8)
		top.Cores = append(top.Cores, topology.Core{ID: topology.CoreID(i), CPUs: cpus, L3: topology.L3ID(i / 4)})
		top.Online = top.Online.Union(cpus)
	}
	return top
}

// TestLineup compares an order that is remembered with one that is made.
func TestLineup(t *testing.T) {
	top := twoDomains()
	rapid.Check(t, func(t *rapid.T) {
		var l lineup
		movable := Movable(top, top.Online, cpuset.Set{})
		var held []Core
		for range rapid.IntRange(1, 20).Draw(t, "samples") {
			switch rapid.IntRange(0, 3).Draw(t, "change") {
			case 0:
				movable = Movable(top, top.Online, subset(t, top.Online, "taken"))
			case 1:
				held = resize(held, movable, rapid.IntRange(0, len(movable)).Draw(t, "size"))
			case 2:
				movable = Movable(top, top.Online, cpuset.Set{})
			}
			kept, order := l.of(held, movable)
			wantKept := keep(held, movable)
			if want := resize(wantKept, movable, len(movable)); !slices.Equal(kept, wantKept) || !slices.Equal(order, want) {
				t.Fatalf("kept %v in %v, want %v in %v", kept, order, wantKept, want)
			}
			held = kept
		}
	})
}
