package quota

import (
	"math"
	"time"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/burst"
	"github.com/berth-project/berth/internal/capability"
	"github.com/berth-project/berth/internal/cpuset"
	"github.com/berth-project/berth/internal/hostfs"
	"github.com/berth-project/berth/internal/kernel"
	"github.com/berth-project/berth/internal/strategy"
	"github.com/berth-project/berth/internal/unit"
)

// Pool watches the CPUs that workloads share.
type Pool struct {
	burst.Pool
	ofFile   float64 // the threshold of the agent's file
	reserved cpuset.Set
	online   cpuset.Set
}

// Configure takes over what the agent's file says; it was checked when read.
func (p *Pool) Configure(cfg v1alpha1.AgentConfig) {
	p.ofFile = float64(*cfg.CPUBurst.ClusterStrategy.SharePoolThresholdPercent) / 100
	p.Threshold = p.ofFile
	p.reserved, _ = cpuset.Parse(cfg.ReservedCPUs)
}

// Follow takes over the threshold of the cluster's strategies. Where they say none,
// that of the agent's file counts.
func (p *Pool) Follow(s *strategy.Strategies) {
	p.Threshold = p.ofFile
	if percent, said := s.SharePoolThresholdPercent(); said {
		p.Threshold = float64(percent) / 100
	}
}

// take takes over which CPUs are shared.
func (p *Pool) take(n *capability.Node) {
	p.online = n.Online
	p.CPUs = max(n.Online.Difference(p.reserved).Difference(n.Isolated).Difference(n.Exclusive).Size(), 1)
}

// sample reads how busy the machine was since the sample before and takes out
// what offline groups used in that time. Time on reserved CPUs counts as used:
// the guard must not promise it.
func (p *Pool) sample(now time.Duration, root *hostfs.Root, offline unit.CPUTime) error {
	busy, err := kernel.CPUBusy(root)
	if err != nil {
		return err
	}
	p.Sample(now, busy, offline)
	return nil
}

func (p *Pool) status() Guard {
	s := Guard{Threshold: p.Threshold, PoolCPUs: p.CPUs}
	if use := p.Use(); !math.IsNaN(use) {
		s.UseRatio = use
	}
	return s
}

// share gives the active workload groups what bounds them from outside: the quotas above
// them, and their part of the node's headroom.
func (q *Groups) share(now time.Duration) {
	groups := make([]*burst.Group, 0, len(q.order))
	for _, m := range q.order {
		if m.state != StateActive {
			continue
		}
		m.law.Facts.Cap, m.law.CapGroup, m.ancestorThrottled = q.capOf(m.group)
		m.law.Resizing = m.workload.Pod.UID != "" && m.otherSpec()
		groups = append(groups, &m.law)
	}
	q.pool.Divide(now, groups)
	for _, m := range q.order {
		if m.state == StateActive && m.law.MustLower() {
			m.due = now
		}
	}
}
