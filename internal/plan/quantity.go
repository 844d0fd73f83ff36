package plan

import (
	"cmp"
	"math/bits"

	"github.com/berth-project/berth/internal/cgroup"
	"github.com/berth-project/berth/internal/unit"
)

// quantity is the value of a quota or a burst as numbers: n microseconds in a
// period, or no limit when n is negative.
type quantity struct{ n, period unit.Micros }

// origin reads the value that a change starts from.
func origin(c Change) quantity { return parse(c.From) }

// target reads the value that a change leads to, at the period that it starts
// from where one is the other doubled, since that is what gets written.
func target(c Change) quantity {
	from := parse(c.From)
	return parse(cgroup.ScaleTo(c.Value, from.period))
}

// parse reads a value; one that is malformed counts as no limit and is left to
// whoever writes it to refuse.
func parse(v cgroup.Value) quantity {
	n, period, err := v.Pair()
	if err != nil {
		return quantity{n: -1, period: 1}
	}
	return quantity{n: n, period: period}
}

func finite(q quantity) bool { return q.n >= 0 }

// exceeds reports whether a burst is above a quota. The kernel compares plain
// microseconds here, and takes any burst where the quota is not limited.
func exceeds(burst, quota quantity) bool { return finite(quota) && burst.n > quota.n }

// compareRatios compares n/period of two quotas exactly; no limit is the
// highest ratio.
func compareRatios(a, b quantity) int {
	if !finite(a) || !finite(b) {
		return cmp.Compare(boolToInt(!finite(a)), boolToInt(!finite(b)))
	}
	aHigh, aLow := bits.Mul64(uint64(a.n), uint64(b.period))
	bHigh, bLow := bits.Mul64(uint64(b.n), uint64(a.period))
	return cmp.Or(cmp.Compare(aHigh, bHigh), cmp.Compare(aLow, bLow))
}

func boolToInt(b bool) int {
	if b {
		return 1
	}
	return 0
}
