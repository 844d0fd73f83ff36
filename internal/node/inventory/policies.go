package inventory

import (
	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/intent/strategy"
	"github.com/berth-project/berth/internal/intent/workload"
	"github.com/berth-project/berth/internal/node/cluster"
	"github.com/berth-project/berth/internal/node/observed"
)

// Policies are the requests of users and administrators.
type Policies struct {
	admin      workload.Administrator
	strategies *strategy.Strategies
	// alone are the strategies of the agent's file, parsed at first use.
	alone    *strategy.Strategies
	problems []strategy.Problem
	koordlet string // the pod of koordlet on this node
}

// Problems returns the errors in the ConfigMaps.
func (p *Policies) Problems() []strategy.Problem { return p.problems }

// Koordlet returns the pod of Koordinator's or ACK's node agent on this node, "" for none.
func (p *Policies) Koordlet() string { return p.koordlet }

// Strategies returns the strategies of the ConfigMaps, nil before the first Take.
func (p *Policies) Strategies() *strategy.Strategies { return p.strategies }

// strategiesNow returns the strategies in effect: without a cluster, those of the agent's file.
func (p *Policies) strategiesNow() *strategy.Strategies {
	if p.strategies != nil {
		return p.strategies
	}
	if p.alone == nil {
		p.alone, _ = strategy.Parse(nil, strategy.Facts{Admin: p.admin}, nil)
	}
	return p.alone
}

// Observed returns what administrators ask for here.
func (p *Policies) Observed() (all observed.Policies) {
	s := p.strategiesNow()
	all.Threshold, all.ThresholdSource = s.Threshold()
	all.CPUPolicy, all.CPUPolicySource = s.CPUPolicy()
	if p.strategies != nil {
		if percent, said := p.strategies.SharePoolThresholdPercent(); said {
			all.SharePoolPercent = &percent
		}
	}
	return all
}

// Class returns the class of a pod on this node.
func (p *Policies) Class(pod *cluster.Pod) v1alpha1.QoSClass {
	return p.strategiesNow().Class(&pod.Pod, pod.BestEffort)
}

// Pinning returns the administrator's rules about exclusive CPUs.
func (p *Policies) Pinning() v1alpha1.PinRules { return p.admin.Pinning }

// parse reads the ConfigMaps again, or applies them to another node.
func (p *Policies) parse(s *cluster.Snapshot) {
	p.koordlet = ""
	for _, one := range s.Pods {
		// ACK's agent has precedence: it moves pages, and Koordinator's does not.
		if !one.Ended && strategy.Koordlet(&one.Pod) && (p.koordlet == "" || one.Namespace == strategy.SystemNamespace) {
			p.koordlet = one.Key
		}
	}
	p.strategies, p.problems = strategy.Parse(s.ConfigMaps, strategy.Facts{
		NodeLabels: s.Node.Labels, Koordlet: p.koordlet != "", Admin: p.admin,
	}, p.strategies)
}
