package isolate

import (
	"math"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/value/unit"
)

// Policy is the administrator's choice, in percent, 0 to 100.
type Policy struct {
	// Threshold is how much of the movable cores online and offline work together may use: cpuSuppressThresholdPercent.
	Threshold int
	// Min is the least share of the movable cores that offline work has: cpuSuppressMinPercent.
	Min int
}

// DefaultPolicy returns the policy of an administrator who chose none.
func DefaultPolicy() Policy { return Policy{Threshold: 65} }

// PolicyOf returns the policy that an administrator asks for, with the defaults.
func PolicyOf(asked v1alpha1.ResourceThreshold) Policy {
	p := DefaultPolicy()
	if percent := asked.CPUSuppressThresholdPercent; percent != nil {
		p.Threshold = int(*percent)
	}
	if percent := asked.CPUSuppressMinPercent; percent != nil {
		p.Min = int(*percent)
	}
	return p
}

// Figures are the results of the law for one moment, in cores.
type Figures struct {
	// Cores is N, the number of movable cores. CPUs is P, the number of their CPUs.
	Cores, CPUs int
	// Use is U, in CPUs.
	Use unit.CPUs
	// Buffer is B, the idle cores that online work has in addition to its need. A core counts as P/N CPUs.
	Buffer float64
	// Need is how many cores online work needs, buffer included: the fewest of the cores that offline work gets last.
	Need int
	// Low is how many cores offline work is guaranteed, Target how many it should have.
	Low, Target int
}

// Law returns the figures for the movable cores, in the order in which offline work gets them. Online work uses the
// given CPUs. The law counts the CPUs of the very cores that stay online, so that a core with an offline sibling, or an
// efficiency core, counts as what it has. It computes in thousandths of a CPU, rounded up, so that its results do not
// depend on a machine's rounding. With fewer than two cores there is no boundary, and Target and Low are 0.
func Law(p Policy, cores []Core, use unit.CPUs) Figures {
	n, all := len(cores), cpuCount(cores)
	f := Figures{Cores: n, CPUs: all, Use: use}
	if n < 2 || all < 1 {
		return f
	}
	f.Buffer = max(0.5, float64(n)/10)
	used := millis(use, all)
	// The CPUs that online work needs, in parts of which each CPU has 10,000 N: 1.2 U + B P/N.
	part := 10_000 * n
	need := 12*n*used + 1000*all*max(5, n)
	f.Need = n - fit(cores, all*part-need, part)
	if more := need - all*part; more > 0 { // cores that the machine lacks
		f.Need = n + ceilDiv(more, 10_000*all)
	}
	f.Low = min(n-1, max(1, ceilDiv(p.Min*n, 100)))
	f.Target = max(f.Low, min(n-f.Need, fit(cores, 1000*p.Threshold*all-100*used, 100_000)))
	return f
}

// fit returns how many of the first cores fit into room, where a CPU takes the given part of it.
func fit(cores []Core, room, part int) int {
	for i, c := range cores {
		if room -= part * c.CPUs.Size(); room < 0 {
			return i
		}
	}
	return len(cores)
}

// core returns how many CPUs a core has in the mean, 0 without a core.
func (f Figures) core() float64 {
	if f.Cores == 0 {
		return 0
	}
	return float64(f.CPUs) / float64(f.Cores)
}

// millis returns a use in thousandths of a CPU, rounded up and at most that of all CPUs. NaN counts as all CPUs.
func millis(use unit.CPUs, cpus int) int {
	if m := math.Ceil(float64(use) * 1000); m < float64(1000*cpus) {
		return int(max(m, 0))
	}
	return 1000 * cpus
}

// ceilDiv returns a/b rounded up; a must not be negative.
func ceilDiv(a, b int) int { return (a + b - 1) / b }

// surge returns how many cores offline work of this size gives back at once.
func (f Figures) surge(size int) int {
	above := size - f.Low
	give := max(int(math.Ceil(f.Buffer)), (above+1)/2)
	return min(give, above)
}
