package credit

import "github.com/berth-project/berth/internal/unit"

// The bounds of Apart, in microseconds.
const (
	// leastApart is how far a quota is away from that of a limit at least: rounding takes less than one away, and
	// cgroup.Grants takes one more or less for the same.
	leastApart unit.Micros = 2
	// shortestPeriod is the shortest period in which there are quotas as far away from those of all limits.
	shortestPeriod unit.Micros = 5000
	// mostTaken is how much less than it was told it returns at most.
	mostTaken unit.Micros = 4
)

// Apart returns the quota to raise to in a period where that shall be this much, above its own: no quota that a
// kubelet, a runtime or systemd makes of a limit, which is a whole number of thousandths of a CPU. Who finds its own
// number in the file takes that for its own write, as the kubelet does of the group of a pod that it resizes, and
// writes nothing. It is up to 4 µs less, and then never as little as its own. In periods below 5 ms, where nearly every
// quota is that of a limit, it is this much.
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

// isNearLimit says that a thousandth of a CPU more or less is a quota less than leastApart away.
func isNearLimit(quota, period unit.Micros) bool {
	rest := quota * 1000 % period
	return min(rest, period-rest) < leastApart*1000
}
