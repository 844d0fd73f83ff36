package credit

import "github.com/berth-project/berth/internal/value/unit"

// The bounds of Apart, in microseconds.
const (
	// leastApart is the least distance of a quota from the quota of a limit. Rounding moves a limit's quota by less
	// than 1, and cgroup.Grants accepts a difference of one.
	leastApart unit.Micros = 2
	// shortestPeriod is the shortest period that has quotas so far from the quotas of all limits.
	shortestPeriod unit.Micros = 5000
	// mostTaken is the most that Apart subtracts from its argument.
	mostTaken unit.Micros = 4
)

// Apart returns the quota to write in order to raise a group from its own quota to quota. The result is not the quota
// that a kubelet, a runtime or systemd computes from a limit, which is a whole number of thousandths of a CPU. A
// program that finds its own number in the file takes it for its own write and writes nothing. The kubelet does so for
// the group of a pod that it resizes.
//
// The result is up to 4 µs less than quota, but then always above own. In periods below 5 ms, where nearly every quota
// is the quota of a limit, Apart returns quota unchanged.
func Apart(own, quota, period unit.Micros) unit.Micros {
	if period < shortestPeriod || quota <= own {
		return quota
	}
	apart := quota
	for isNearLimit(apart, period) {
		apart--
	}
	if apart <= own {
		return quota
	}
	return apart
}

// isNearLimit reports whether the quota of a whole number of thousandths of a CPU is less than leastApart away.
func isNearLimit(quota, period unit.Micros) bool {
	rest := quota * 1000 % period
	return min(rest, period-rest) < leastApart*1000
}
