package headroom

import (
	"fmt"
	"math"
	"time"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability"
	"github.com/berth-project/berth/internal/value/cpuset"
	"github.com/berth-project/berth/internal/value/unit"
)

// Pool is the CPUs of a node that its workloads share, and their use, which the node guard divides. The zero value has
// no sample yet.
type Pool struct {
	// Threshold is the use, 0 to 1, below which every group has its full ceiling.
	Threshold float64
	// CPUs is the number of shared CPUs, shared their set; Online is the set of the node's online CPUs.
	CPUs           int
	shared, Online cpuset.Set
	reserved       cpuset.Set
	mean           Mean
	// at is the time of the last accepted sample, and busy its value. apart is the use of groups outside the pool since
	// then.
	at          time.Duration
	busy, apart unit.CPUTime
}

// shortest is the least time of a sample. The kernel counts the use of the machine in ticks of 10 ms a CPU, and that of
// groups exactly: over a shorter time their difference is noise. Rounds come closer together while the boundary of
// offline work moves.
const shortest = MeanWindow / 20

// Configure applies the agent's file, which was checked when it was read, and the threshold of the cluster, nil for that
// of the file.
func (p *Pool) Configure(cfg *v1alpha1.AgentConfig, percent *int64) {
	if percent == nil {
		percent = cfg.CPUBurst.ClusterStrategy.SharePoolThresholdPercent
	}
	p.Threshold = float64(*percent) / 100
	p.reserved, _ = cpuset.Parse(cfg.ReservedCPUs)
}

// Take records the shared CPUs, and reports whether they changed.
func (p *Pool) Take(n *capability.Node) (moved bool) {
	before := p.shared
	p.Online, p.shared = n.Online, n.Online.Difference(p.reserved).Difference(n.Isolated).Difference(n.Exclusive)
	p.CPUs = max(p.shared.Size(), 1)
	return p.shared != before
}

// Sample records the busy time of all CPUs of the machine since it started, and the CPU time that groups outside the
// pool used since the previous call.
func (p *Pool) Sample(now time.Duration, busy, apart unit.CPUTime) {
	if p.apart += apart; p.at != 0 && now-p.at < shortest {
		return
	}
	used := 0.0 // the first sample only opens the window
	if p.at != 0 {
		used = float64(max(busy.Since(p.busy)-p.apart, 0).Seconds().Per(now-p.at)) / float64(p.CPUs)
	}
	p.mean.Add(now, used)
	p.at, p.busy, p.apart = now, busy, 0
}

// Use returns the mean use over MeanWindow, 0 to 1; NaN before the second sample.
func (p *Pool) Use() float64 { return p.mean.Value() }

// Busy returns the busy time of all CPUs since the machine started, at the last accepted sample.
func (p *Pool) Busy() (at time.Duration, busy unit.CPUTime) { return p.at, p.busy }

// guarded returns the use that the guard depends on. A threshold of 100 % switches the guard off: there is no use above
// it to divide.
func (p *Pool) guarded() float64 {
	if p.Threshold >= 1 {
		return 0
	}
	return p.Use()
}

// Unknown reports whether the guard cannot divide yet: use is the difference of two samples.
func (p *Pool) Unknown() bool { return math.IsNaN(p.guarded()) }

// Shortage returns why the node limits a group's ceiling.
func (p *Pool) Shortage(ceiling unit.CPUs) string {
	if p.Unknown() {
		return "the use of the node is not known yet"
	}
	return fmt.Sprintf("the node is used to %.0f %%: the share of this group is %.3f CPUs", p.Use()*100, ceiling)
}

// Shares returns each demand's present share of the node, in CPUs.
func (p *Pool) Shares(demands []Demand) []unit.CPUs {
	return Share(p.Threshold, p.guarded(), unit.CPUs(p.CPUs), demands)
}
