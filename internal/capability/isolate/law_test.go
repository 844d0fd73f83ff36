package isolate

import (
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-project/berth/internal/value/unit"
)

func anyPolicy(t *rapid.T) Policy {
	return Policy{Threshold: rapid.IntRange(0, 100).Draw(t, "T"), Min: rapid.IntRange(0, 100).Draw(t, "m")}
}

// milli draws a use in whole thousandths, the unit of the law.
func milli(t *rapid.T, n, per int) int {
	return rapid.IntRange(0, 1000*n*per).Draw(t, "U in thousandths")
}

// ratio returns a/b.
func ratio(a, b int) *big.Rat { return big.NewRat(int64(a), int64(b)) }

// oracle is the law of the specification in exact fractions. It tries every integer instead of computing the result.
func oracle(p Policy, n, t, used int) (need, low, target int) {
	use := ratio(used, 1000*t) // U/t
	buffer := ratio(1, 2)
	if tenth := ratio(n, 10); tenth.Cmp(buffer) > 0 {
		buffer = tenth
	}
	wanted := new(big.Rat).Add(new(big.Rat).Mul(ratio(12, 10), use), buffer)
	for ratio(need, 1).Cmp(wanted) < 0 {
		need++
	}
	share := ratio(p.Min*n, 100)
	for low = 1; ratio(low, 1).Cmp(share) < 0; {
		low++
	}
	low = min(low, n-1)
	room := new(big.Rat).Sub(ratio(p.Threshold*n, 100), use)
	target = -10 * n * t // the largest integer that is not more than room
	for ratio(target+1, 1).Cmp(room) <= 0 {
		target++
	}
	return need, low, max(low, min(n-need, target))
}

func TestLawAgainstBruteForce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, per, p := rapid.IntRange(2, 300).Draw(t, "N"), rapid.IntRange(1, 8).Draw(t, "t"), anyPolicy(t)
		used := milli(t, n, per)
		f := Law(p, n, per, unit.MilliCPUs(int64(used)))
		need, low, target := oracle(p, n, per, used)
		if f.Need != need || f.Low != low || f.Target != target {
			t.Fatalf("%+v, want need %d, low %d, target %d", f, need, low, target)
		}
		if f.Low < 1 || f.Target < f.Low || f.Target >= n {
			t.Fatalf("%+v: want 1 <= low <= target < N", f)
		}
		if f.Target > f.Low && f.Target > n-f.Need {
			t.Fatalf("%+v: offline work has what online work needs", f)
		}
	})
}

func TestLawIsMonotone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, per, p := rapid.IntRange(2, 300).Draw(t, "N"), rapid.IntRange(1, 8).Draw(t, "t"), anyPolicy(t)
		a, b := milli(t, n, per), milli(t, n, per)
		less, more := Law(p, n, per, unit.MilliCPUs(int64(min(a, b)))), Law(p, n, per, unit.MilliCPUs(int64(max(a, b))))
		if less.Target < more.Target || less.Need > more.Need || less.Low != more.Low {
			t.Fatalf("more use gives offline work more: %+v, then %+v", less, more)
		}
	})
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
		f := Law(c.p, c.n, c.t, c.use)
		if f.Need != c.need || f.Low != c.low || f.Target != c.target {
			t.Errorf("N %d, t %d, U %g, %+v: %+v", c.n, c.t, float64(c.use), c.p, f)
		}
	}
}

func TestSurgeGivesBack(t *testing.T) {
	for _, c := range []struct{ n, size, low, want int }{
		{8, 5, 1, 2}, {8, 2, 1, 1}, {8, 1, 1, 0}, {64, 40, 1, 20}, {64, 9, 1, 7}, {64, 3, 1, 2},
	} {
		f := Law(DefaultPolicy(), c.n, 2, 0)
		f.Low = c.low
		if got := f.surge(c.size); got != c.want {
			t.Errorf("of %d of %d cores %d are given back, want %d", c.size, c.n, got, c.want)
		}
	}
}
