package plan

import (
	"cmp"
	"math/bits"
)

func finite(f Form) bool { return f.N >= 0 }

// exceeds reports whether a burst is above a quota. The kernel compares plain microseconds here, and accepts any burst
// where the quota is unlimited.
func exceeds(burst, quota Form) bool { return finite(quota) && burst.N > quota.N }

// compareRatios compares N/Period of two quotas exactly; unlimited is the highest ratio.
func compareRatios(a, b Form) int {
	switch {
	case !finite(a) && !finite(b):
		return 0
	case !finite(a):
		return 1
	case !finite(b):
		return -1
	}
	aHigh, aLow := bits.Mul64(uint64(a.N), uint64(b.Period))
	bHigh, bLow := bits.Mul64(uint64(b.N), uint64(a.Period))
	return cmp.Or(cmp.Compare(aHigh, bHigh), cmp.Compare(aLow, bLow))
}
