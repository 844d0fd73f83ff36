package isolate

import (
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-project/berth/internal/value/cpuset"
	"github.com/berth-project/berth/internal/value/unit"
)

func anyPolicy(t *rapid.T) Policy {
	return Policy{Threshold: rapid.IntRange(0, 100).Draw(t, "T"), Min: rapid.IntRange(0, 100).Draw(t, "m")}
}

// anyCores draws movable cores of equal or different numbers of threads.
func anyCores(t *rapid.T) []Core {
	n, per := rapid.IntRange(2, 100).Draw(t, "N"), rapid.IntRange(1, 8).Draw(t, "t")
	cores := machine(n, per, 8)
	switch rapid.IntRange(0, 2).Draw(t, "kind") {
	case 1: // a few siblings are offline
		for range rapid.IntRange(1, 3).Draw(t, "offline siblings") {
			withoutSibling(cores, rapid.IntRange(0, n-1).Draw(t, "core"))
		}
	case 2:
		for i := range cores {
			cores[i].CPUs = machine(1, rapid.IntRange(1, 8).Draw(t, "threads"), 1)[0].CPUs
		}
	}
	return cores
}

// withoutSibling takes a CPU away from a core that has more than one.
func withoutSibling(cores []Core, at int) {
	if last, _ := cores[at].CPUs.Max(); cores[at].CPUs.Size() > 1 {
		cores[at].CPUs = cores[at].CPUs.Remove(last)
	}
}

// milli draws a use in whole thousandths, the unit of the law.
func milli(t *rapid.T, cpus int) int {
	return rapid.IntRange(0, 1000*cpus).Draw(t, "U in thousandths")
}

// ratio returns a/b.
func ratio(a, b int) *big.Rat { return big.NewRat(int64(a), int64(b)) }

// oracle is the law of the specification in exact fractions. It tries every number of cores instead of computing the
// result. mayTake is how many cores leave online work the CPUs that it needs, -1 if even all cores are too few.
func oracle(p Policy, cores []Core, used int) (mayTake, low, target int) {
	n, all := len(cores), cpuCount(cores)
	use := ratio(used, 1000)
	buffer := ratio(1, 2)
	if tenth := ratio(n, 10); tenth.Cmp(buffer) > 0 {
		buffer = tenth
	}
	wanted := new(big.Rat).Mul(buffer, ratio(all, n)) // CPUs
	wanted.Add(wanted, new(big.Rat).Mul(ratio(12, 10), use))
	room := new(big.Rat).Sub(ratio(p.Threshold*all, 100), use)
	mayTake, below := -1, -1
	for size := range n + 1 {
		taken := cpuCount(cores[:size])
		if ratio(all-taken, 1).Cmp(wanted) >= 0 {
			mayTake = size
		}
		if ratio(taken, 1).Cmp(room) <= 0 {
			below = size
		}
	}
	share := ratio(p.Min*n, 100)
	for low = 1; ratio(low, 1).Cmp(share) < 0; {
		low++
	}
	low = min(low, n-1)
	return mayTake, low, max(low, min(mayTake, below))
}

func TestLawAgainstBruteForce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cores, p := anyCores(t), anyPolicy(t)
		n, used := len(cores), milli(t, cpuCount(cores))
		f := Law(p, cores, unit.MilliCPUs(int64(used)))
		mayTake, low, target := oracle(p, cores, used)
		if max(n-f.Need, -1) != mayTake || f.Low != low || f.Target != target {
			t.Fatalf("%+v, want need %d, low %d, target %d", f, n-mayTake, low, target)
		}
		if f.Low < 1 || f.Target < f.Low || f.Target >= n {
			t.Fatalf("%+v: want 1 <= low <= target < N", f)
		}
		if f.Target > f.Low && f.Target > n-f.Need {
			t.Fatalf("%+v: offline work has what online work needs", f)
		}
	})
}

// TestLawOfEqualCores compares the law with its formula for N cores of t threads each.
func TestLawOfEqualCores(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 300).Draw(t, "N")
		per, p := rapid.IntRange(1, min(8, cpuset.Max/n)).Draw(t, "t"), anyPolicy(t)
		used := milli(t, n*per)
		f := Law(p, machine(n, per, 8), unit.MilliCPUs(int64(used)))
		need := ceilDiv(12*used+max(5000*per, 1000*per*n), 10_000*per)
		low := min(n-1, max(1, ceilDiv(p.Min*n, 100)))
		target := max(low, min(n-need, (p.Threshold*n*1000*per-100*used)/(100_000*per)))
		if f.Need != need || f.Low != low || f.Target != target {
			t.Fatalf("%+v, want need %d, low %d, target %d", f, need, low, target)
		}
	})
}

func TestLawIsMonotone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cores, p := anyCores(t), anyPolicy(t)
		a, b := milli(t, cpuCount(cores)), milli(t, cpuCount(cores))
		less, more := Law(p, cores, unit.MilliCPUs(int64(min(a, b)))), Law(p, cores, unit.MilliCPUs(int64(max(a, b))))
		if less.Target < more.Target || less.Need > more.Need || less.Low != more.Low {
			t.Fatalf("more use gives offline work more: %+v, then %+v", less, more)
		}
	})
}

// TestLawOfUnequalCores checks machines whose cores have different numbers of threads. Offline work gets cores from the
// end.
func TestLawOfUnequalCores(t *testing.T) {
	whole, lacking := machine(64, 2, 64), machine(64, 2, 64)
	withoutSibling(lacking, 10)
	pair := machine(2, 2, 2)
	withoutSibling(pair, 1)
	hybrid := machine(24, 1, 24) // 8 performance cores of two threads, then 16 efficiency cores
	for i := range 8 {
		hybrid[i].CPUs = hybrid[i].CPUs.Add(24 + i)
	}
	for what, c := range map[string]struct {
		cores             []Core
		use               unit.CPUs
		need, low, target int
	}{
		"64 cores":                       {whole, 40, 31, 1, 21},
		"the same, a sibling offline":    {lacking, 40, 31, 1, 21}, // 127 - 2 x 33 >= 48 + 6.4 x 127/64; 42 <= 82.55 - 40
		"hybrid, at rest":                {hybrid, 0, 2, 1, 18},    // 2 cores of 2 >= 2.4 x 32/24; 16 + 2 x 2 <= 20.8
		"hybrid, 8 CPUs in use":          {hybrid, 8, 7, 1, 12},    // 7 cores of 2 >= 9.6 + 3.2; 12 <= 12.8
		"hybrid, its large cores in use": {hybrid, 16, 15, 1, 4},   // 8 of 2 and 7 of 1 >= 19.2 + 3.2; 4 <= 4.8
		"hybrid, everything in use":      {hybrid, 32, 32, 1, 1},   // 38.4 + 3.2 is 7.2 mean cores above 32
		"hybrid, with half guaranteed":   {hybrid, 32, 32, 12, 12},
		"two cores, one of them of one":  {pair, 0.5, 1, 1, 1}, // a core of 2 >= 0.6 + 0.75
		"no thread of any of two cores":  {make([]Core, 2), 0, 0, 0, 0},
	} {
		p := DefaultPolicy()
		if c.low > 1 {
			p.Min = 50
		}
		f := Law(p, resize(nil, c.cores, len(c.cores)), c.use)
		if f.Need != c.need || f.Low != c.low || f.Target != c.target {
			t.Errorf("%s: %+v, want need %d, low %d, target %d", what, f, c.need, c.low, c.target)
		}
	}
}

func TestLaw(t *testing.T) {
	for _, c := range []struct {
		n, t, low, need, target int
		use                     unit.CPUs
		p                       Policy
	}{
		{8, 2, 1, 4, 2, 5.1, Policy{Threshold: 65}}, // 1.2 x 2.55 + 0.8 = 3.86; 5.2 - 2.55 = 2.65
		{8, 2, 1, 1, 5, 0, Policy{Threshold: 65}},
		{2, 1, 1, 1, 1, 0.3, DefaultPolicy()},
		{2, 1, 1, 3, 1, 2, DefaultPolicy()},
		{10, 1, 1, 7, 3, 5, Policy{Threshold: 100}}, // exactly 7
		{10, 1, 1, 8, 2, 5.0001, Policy{Threshold: 100}},
		{10, 1, 3, 11, 3, 8, Policy{Threshold: 100, Min: 30}},
		{10, 1, 9, 1, 9, 0, Policy{Min: 100}},
		{4, 2, 1, 6, 1, unit.CPUs(math.NaN()), DefaultPolicy()},
		{4, 2, 1, 6, 1, unit.CPUs(math.Inf(1)), DefaultPolicy()},
		{4, 2, 1, 1, 2, -3, DefaultPolicy()},
		{1, 2, 0, 0, 0, 0, DefaultPolicy()},
		{0, 0, 0, 0, 0, 0, DefaultPolicy()},
	} {
		f := Law(c.p, machine(c.n, c.t, 8), c.use)
		if f.Need != c.need || f.Low != c.low || f.Target != c.target {
			t.Errorf("N %d, t %d, U %g, %+v: %+v", c.n, c.t, float64(c.use), c.p, f)
		}
	}
}

func TestSurgeGivesBack(t *testing.T) {
	for _, c := range []struct{ n, size, low, want int }{
		{8, 5, 1, 2}, {8, 2, 1, 1}, {8, 1, 1, 0}, {64, 40, 1, 20}, {64, 9, 1, 7}, {64, 3, 1, 2},
	} {
		f := Law(DefaultPolicy(), machine(c.n, 2, 8), 0)
		f.Low = c.low
		if got := f.surge(c.size); got != c.want {
			t.Errorf("of %d of %d cores %d are given back, want %d", c.size, c.n, got, c.want)
		}
	}
}
