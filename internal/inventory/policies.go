package inventory

import (
	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/cluster"
	"github.com/berth-project/berth/internal/strategy"
	"github.com/berth-project/berth/internal/workload"
)

// policies are what users and administrators ask for.
type policies struct {
	admin      workload.Administrator
	strategies *strategy.Strategies
	// alone is what the agent's file says, read when it is first asked for.
	alone    *strategy.Strategies
	problems []strategy.Problem
	koordlet string // the pod of koordlet on this node
}

// Problems are what is wrong in the ConfigMaps.
func (p *policies) Problems() []strategy.Problem { return p.problems }

// Koordlet is the pod of Koordinator's or ACK's node agent on this node, "" for none.
func (p *policies) Koordlet() string { return p.koordlet }

// Strategies are what the ConfigMaps ask for, nil before the first Take.
func (p *policies) Strategies() *strategy.Strategies { return p.strategies }

// strategiesNow are those that count now: without a cluster, of which nothing was taken, what
// the agent's file says.
func (p *policies) strategiesNow() *strategy.Strategies {
	if p.strategies != nil {
		return p.strategies
	}
	if p.alone == nil {
		p.alone, _ = strategy.Parse(nil, strategy.Facts{Admin: p.admin}, nil)
	}
	return p.alone
}

// Threshold is how much offline work may take here, and where that is written, "" for nowhere.
func (p *policies) Threshold() (v1alpha1.ResourceThreshold, string) {
	return p.strategiesNow().Threshold()
}

// CPUPolicy is by which means classes are kept apart here, and where that is written, "" for
// nowhere.
func (p *policies) CPUPolicy() (policy, source string) { return p.strategiesNow().CPUPolicy() }

// parse reads the ConfigMaps again, or applies them to another node.
func (p *policies) parse(s *cluster.Snapshot) {
	p.koordlet = ""
	for _, one := range s.Pods {
		// Of two that of ACK counts: it moves pages, and that of Koordinator does not.
		if !one.Ended && strategy.Koordlet(&one.Pod) && (p.koordlet == "" || one.Namespace == strategy.SystemNamespace) {
			p.koordlet = one.Key
		}
	}
	p.strategies, p.problems = strategy.Parse(s.ConfigMaps, strategy.Facts{
		NodeLabels: s.Node.Labels, Koordlet: p.koordlet != "", Admin: p.admin,
	}, p.strategies)
}
