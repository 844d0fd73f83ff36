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
	// Cores is N, the number of movable cores. Threads is t, the least number of CPUs of any of them.
	Cores, Threads int
	// Use is U, in CPUs.
	Use unit.CPUs
	// Buffer is B, the idle cores that online work has in addition to its need.
	Buffer float64
	// Need is how many cores online work needs, buffer included.
	Need int
	// Low is how many cores offline work is guaranteed, Target how many it should have.
	Low, Target int
}

// Law returns the figures for n movable cores of t threads each, of which online work uses the given CPUs. It computes
// in thousandths of a CPU, rounded up, so that its results do not depend on a machine's rounding. With fewer than two
// cores there is no boundary, and Target and Low are 0.
func Law(p Policy, n, t int, use unit.CPUs) Figures {
	f := Figures{Cores: n, Threads: t, Use: use}
	if n < 2 || t < 1 {
		return f
	}
	f.Buffer = max(0.5, float64(n)/10)
	used := millis(use, n*t)
	f.Need = ceilDiv(12*used+max(5000*t, 1000*t*n), 10_000*t)
	f.Low = min(n-1, max(1, ceilDiv(p.Min*n, 100)))
	f.Target = max(f.Low, min(n-f.Need, (p.Threshold*n*1000*t-100*used)/(100_000*t)))
	return f
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
