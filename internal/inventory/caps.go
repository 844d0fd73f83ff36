package inventory

import (
	"cmp"
	"maps"
	"slices"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/cluster"
	"github.com/berth-project/berth/internal/place"
	"github.com/berth-project/berth/internal/placement"
	"github.com/berth-project/berth/internal/workload"
)

// caps are what the administrator's rules refuse. The scheduler has the same rules, but a
// pod with a node's name in its spec, or with another scheduler, never met it. A
// namespace's CPUs are counted on this node: the pods that have some have theirs, whatever
// the rules were then, and after them the pods that were bound first. Static pods are the
// administrator's.
type caps struct {
	// refused are the pods, by UID, that may not have exclusive CPUs, or no others than
	// they have, and why.
	refused map[string]string
	// holding are the pods that have exclusive CPUs.
	holding map[string]bool
}

// refuse applies the rules to all pods.
func (inv *Inventory) refuse() {
	inv.caps.hold(inv.Obstacle() == (Obstacle{}), inv.node.DesiredPods(), &inv.containers)
	inv.caps.apply(rulesOf(inv.admin.Pinning), inv.allPods())
}

// hold takes the pods that have exclusive CPUs by what was decided and, after a start, by
// what runs. While nothing is decided those from before count, too.
func (c *caps) hold(decided bool, desired []place.DesiredPod, running *containers) {
	has := map[string]bool{}
	if !decided {
		maps.Copy(has, c.holding)
	}
	for _, d := range desired {
		has[d.PodUID] = true
	}
	running.pinned(has)
	c.holding = has
}

func rulesOf(pinning v1alpha1.PinRules) placement.Rules {
	rules := placement.Rules{Namespaces: pinning.Namespaces, WholeRequest: pinning.RequestBelowLimit == v1alpha1.RequestBelowLimitDeny}
	if pinning.MaxPinnedCPUsPerNamespace != nil {
		rules.MostCPUs = *pinning.MaxPinnedCPUsPerNamespace
	}
	return rules
}

// apply says which of the pods the rules refuse.
func (c *caps) apply(rules placement.Rules, pods []*cluster.Pod) {
	c.refused = map[string]string{}
	held := map[string]int64{}
	slices.SortFunc(pods, c.first)
	for _, p := range pods {
		if p.Ended || p.Static || !workload.MayPin(p.Labels, p.Annotations) {
			continue
		}
		pin, problems := workload.PinningOf(p.Pod)
		if !pin.Wanted || len(problems) > 0 {
			continue
		}
		ask := placement.AskOf(pin)
		why, _ := rulesFor(p, rules).Refusal(p.Namespace, &ask, held[p.Namespace])
		if why != "" {
			c.refused[p.UID] = why
		}
		if why == "" || c.holding[p.UID] {
			held[p.Namespace] += int64(ask.CPUs())
		}
	}
}

// rulesFor are the rules for one pod. What a pod requests that only the runtime has reported
// is not known: that rule counts once it is.
func rulesFor(p *cluster.Pod, rules placement.Rules) placement.Rules {
	rules.WholeRequest = rules.WholeRequest && !p.Provisional
	return rules
}

// first is the order in which pods have CPUs: those that have some, then by when they were
// bound, which of provisional ones is not known.
func (c *caps) first(a, b *cluster.Pod) int {
	return cmp.Or(
		yesFirst(c.holding[a.UID], c.holding[b.UID]), yesFirst(!a.Provisional, !b.Provisional),
		a.Bound.Compare(b.Bound), cmp.Compare(a.UID, b.UID),
	)
}

func yesFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}
