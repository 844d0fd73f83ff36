package isolate

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/value/cpuset"
	"github.com/berth-project/berth/test/recorded"
)

// siblings groups the cores by the unit of a reserve: their L3, or their node if they have no L3 or are alone in it.
func siblings(cores []Core) map[Domain][]Core {
	all := map[Domain][]Core{}
	for _, c := range cores {
		alone := true
		for _, other := range cores {
			alone = alone && (other.ID == c.ID || other.Domain != c.Domain)
		}
		if alone {
			all[Domain{topology.None, c.Node}] = append(all[Domain{topology.None, c.Node}], c)
		} else {
			all[c.Domain] = append(all[c.Domain], c)
		}
	}
	return all
}

// fewest tries every set of cores of a domain that leaves at least one core. It returns the size of the smallest set
// with its share of the CPUs, or all cores but one if no set has it.
func fewest(cores []Core, percent int) int {
	best := len(cores) - 1
	for some := range 1 << len(cores) {
		size, cpus := 0, 0
		for i, c := range cores {
			if some>>i&1 == 1 {
				size, cpus = size+1, cpus+c.CPUs.Size()
			}
		}
		if size < best && 100*cpus >= percent*cpusOf(cores).Size() {
			best = size
		}
	}
	return best
}

// checkReserve compares a reserve with every possible set of cores. If all cores of a domain have the same number of
// threads, the reserve must be a smallest set.
func checkReserve(t *rapid.T, cores []Core, reserve cpuset.Set, percent int) {
	if !reserve.IsSubsetOf(cpusOf(cores)) || len(cores) > 0 && cpusOf(cores).IsSubsetOf(reserve) {
		t.Fatalf("reserve %s of %s", reserve, cpusOf(cores))
	}
	for _, of := range siblings(cores) {
		kept, cpus, same := 0, 0, true
		for _, c := range of {
			same = same && c.CPUs.Size() == of[0].CPUs.Size()
			if c.CPUs.Intersects(reserve) {
				kept, cpus = kept+1, cpus+c.CPUs.Size()
				if !c.CPUs.IsSubsetOf(reserve) {
					t.Fatalf("reserve %s has a part of core %s", reserve, c.CPUs)
				}
			}
		}
		if len(of) > 1 && kept < len(of)-1 && 100*cpus < percent*cpusOf(of).Size() || kept > len(of)-1 {
			t.Fatalf("%d %% of %s: reserve %s", percent, cpusOf(of), reserve)
		}
		if same && len(of) <= 12 && kept != fewest(of, percent) {
			t.Fatalf("%d %% of %s: reserve %s, %d cores would do", percent, cpusOf(of), reserve, fewest(of, percent))
		}
	}
}

// TestReserveOfRecordedMachines checks reserves on every recorded machine, whatever is reserved, pinned or offline.
// Each L3 keeps its share in whole cores, with no core more than necessary, and offline work always has a core. The
// reserve is stable. Without changes it stays the same, a core stays in it while the reserve needs as many, and a CPU
// that goes offline and returns moves no other core.
func TestReserveOfRecordedMachines(t *testing.T) {
	for name, top := range recorded.Machines(t) {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				percent := rapid.IntRange(1, 50).Draw(t, "percent")
				cores := Movable(top, top.Online, subset(t, top.Online, "taken"))
				reserve := Reserve(cores, cpuset.Set{}, percent)
				checkReserve(t, cores, reserve, percent)
				if again := Reserve(cores, reserve, percent); again != reserve {
					t.Fatalf("nothing changed: %s, then %s", reserve, again)
				}
				if len(cores) == 0 {
					return
				}
				gone := rapid.IntRange(0, len(cores)-1).Draw(t, "gone")
				left := append(append([]Core{}, cores[:gone]...), cores[gone+1:]...)
				without := Reserve(left, reserve, percent)
				checkReserve(t, left, without, percent)
				back := Reserve(cores, without, percent)
				checkReserve(t, cores, back, percent)
				checkStable(t, cores, cores[gone], reserve, without, back)
			})
		})
	}
}

// checkStable compares a reserve before a core disappears, while it is missing, and after its return. Other domains
// must stay the same, and in its own domain no new core may replace one that is there. A domain of two cores is
// excluded, because its remaining core then counts with the cores that are alone.
func checkStable(t *rapid.T, cores []Core, gone Core, before, without, back cpuset.Set) {
	all := siblings(cores)[gone.Domain]
	if len(all) < 3 {
		return
	}
	own := cpusOf(all)
	if others := before.Difference(own); without.Difference(own) != others || back.Difference(own) != others {
		t.Fatalf("core %s went: reserve %s, then %s, at last %s", gone.CPUs, before, without, back)
	}
	if !gone.CPUs.Intersects(before) && !without.IsSubsetOf(before) || !before.Difference(gone.CPUs).Intersect(own).IsEmpty() && !without.Intersects(before.Intersect(own)) {
		t.Fatalf("core %s went: reserve %s, then %s", gone.CPUs, before, without)
	}
	if !without.IsSubsetOf(back) {
		t.Fatalf("core %s came back: reserve %s, then %s", gone.CPUs, without, back)
	}
}

// TestReserve checks the figures of the documentation: a tenth of an L3, in whole cores.
func TestReserve(t *testing.T) {
	for _, c := range []struct {
		name                string
		cores, per, perL3   int
		percent             int
		held, want, without string // without the first core
	}{
		{"off", 8, 2, 8, 0, "", "", ""},
		{"two CPUs", 2, 1, 2, 10, "", "0", ""},
		{"one core of two threads", 1, 2, 1, 10, "", "", ""},
		{"16 CPUs", 16, 1, 16, 10, "", "0-1", "1-2"},
		{"16 CPUs, SMT", 8, 2, 8, 10, "", "0,8", "1,9"},
		{"two L3", 8, 2, 4, 10, "", "0,4,8,12", "1,4,9,12"},
		{"held cores stay", 8, 2, 4, 10, "3,11", "3-4,11-12", "3-4,11-12"},
		{"cores alone in their L3", 8, 1, 1, 10, "", "0", "1"},
		{"half", 4, 1, 4, 50, "", "0-1", "1-2"},
	} {
		cores := machine(c.cores, c.per, c.perL3)
		held := parse(t, c.held)
		if got := Reserve(cores, held, c.percent); got != parse(t, c.want) {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
		if got := Reserve(cores[1:], held, c.percent); got != parse(t, c.without) {
			t.Errorf("%s, without the first core: %s, want %s", c.name, got, c.without)
		}
	}
}

func parse(t *testing.T, list string) cpuset.Set {
	t.Helper()
	s, err := cpuset.Parse(list)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
