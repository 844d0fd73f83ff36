package headroom

import (
	"fmt"
	"math"
	"time"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability"
	"github.com/berth-project/berth/internal/cpuset"
	"github.com/berth-project/berth/internal/unit"
)

// Pool is the CPUs of a node that its workloads share, and how busy they are: what the
// node guard divides. The zero value was not sampled yet.
type Pool struct {
	// Threshold is the use, 0 to 1, below which every group has its full ceiling.
	Threshold float64
	// CPUs is how many there are, shared which; Online is which CPUs the node has online.
	CPUs           int
	shared, Online cpuset.Set
	// ofFile is the threshold of the agent's file.
	ofFile   float64
	reserved cpuset.Set
	mean     Mean
	// at is when the last sample that counts was, busy what it had, and apart what groups that
	// do not count used since then.
	at          time.Duration
	busy, apart unit.CPUTime
}

// shortest is the least time of a sample. The kernel counts the use of the machine in ticks of
// 10 ms a CPU, and that of groups exactly: within less their difference is noise. Rounds come
// closer together where the boundary of offline work moves.
const shortest = MeanWindow / 20

// Configure takes over what the agent's file says; it was checked when read.
func (p *Pool) Configure(cfg v1alpha1.AgentConfig) {
	p.ofFile = float64(*cfg.CPUBurst.ClusterStrategy.SharePoolThresholdPercent) / 100
	p.Threshold = p.ofFile
	p.reserved, _ = cpuset.Parse(cfg.ReservedCPUs)
}

// Follow takes over the threshold of the cluster's strategies. Where they say none,
// that of the agent's file counts.
func (p *Pool) Follow(percent int64, said bool) {
	p.Threshold = p.ofFile
	if said {
		p.Threshold = float64(percent) / 100
	}
}

// Take takes over which CPUs are shared, and reports whether they are others than before.
func (p *Pool) Take(n *capability.Node) (moved bool) {
	before := p.shared
	p.Online, p.shared = n.Online, n.Online.Difference(p.reserved).Difference(n.Isolated).Difference(n.Exclusive)
	p.CPUs = max(p.shared.Size(), 1)
	return p.shared != before
}

// Sample takes how busy all CPUs of the machine were since it started, and how much of
// the time since the call before groups used that do not count in the pool.
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

// Use is the mean use over MeanWindow, 0 to 1; NaN before the second sample.
func (p *Pool) Use() float64 { return p.mean.Value() }

// Busy is how busy all CPUs of the machine were since it started, at the last sample that counts.
func (p *Pool) Busy() (at time.Duration, busy unit.CPUTime) { return p.at, p.busy }

// guarded is the use that the guard goes by. A threshold of 100 % switches the
// guard off: there is no use above it to divide.
func (p *Pool) guarded() float64 {
	if p.Threshold >= 1 {
		return 0
	}
	return p.Use()
}

// Unknown says that the guard cannot divide anything yet: use is the difference
// of two samples.
func (p *Pool) Unknown() bool { return math.IsNaN(p.guarded()) }

// Shortage says why a group's ceiling is what the node leaves it.
func (p *Pool) Shortage(ceiling unit.CPUs) string {
	if p.Unknown() {
		return "the use of the node is not known yet"
	}
	return fmt.Sprintf("the node is used to %.0f %%: the share of this group is %.3f CPUs", p.Use()*100, ceiling)
}

// Shares returns what each demand's share of the node is at the moment, in CPUs.
func (p *Pool) Shares(demands []Demand) []unit.CPUs {
	return Share(p.Threshold, p.guarded(), unit.CPUs(p.CPUs), demands)
}
