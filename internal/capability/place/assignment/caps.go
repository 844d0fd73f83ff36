package assignment

import (
	"cmp"
	"maps"
	"slices"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability/place"
	"github.com/berth-project/berth/internal/capability/place/placement"
	"github.com/berth-project/berth/internal/intent/workload"
	"github.com/berth-project/berth/internal/node/cluster"
	"github.com/berth-project/berth/internal/node/observed"
)

// caps are the refusals by the administrator's rules. The scheduler has the same rules, but never saw a pod whose spec
// names its node, or a pod of another scheduler. A namespace's CPUs are counted on this node. Pods that have CPUs
// retain them, even if the present rules refuse them; after them come the pods that were bound first. Static pods
// belong to the administrator, so the rules do not apply.
type caps struct {
	// refused has the reason for each pod, by UID, that may have no exclusive CPUs, or only its present ones.
	refused map[string]string
	// holding has the pods that have exclusive CPUs.
	holding map[string]bool
}

// refuse applies the rules to all pods.
func (a *Assignment) refuse() {
	a.caps.hold(a.reported == (observed.Obstacle{}), a.node.DesiredPods(), a.inventory.Containers().OnExclusiveCPUs())
	a.caps.apply(rulesOf(a.inventory.Policies.Pinning()), a.inventory.Pods.All())
}

// hold records the pods that have exclusive CPUs by decision or, after a start, by what runs (has, by UID). While
// nothing is decided, the earlier pods are included.
func (c *caps) hold(decided bool, desired []place.DesiredPod, has map[string]bool) {
	if !decided {
		maps.Copy(has, c.holding)
	}
	for _, d := range desired {
		has[d.PodUID] = true
	}
	c.holding = has
}

func rulesOf(pinning v1alpha1.PinRules) placement.Rules {
	rules := placement.Rules{Namespaces: pinning.Namespaces, WholeRequest: pinning.RequestBelowLimit == v1alpha1.RequestBelowLimitDeny}
	if pinning.MaxPinnedCPUsPerNamespace != nil {
		rules.MostCPUs = *pinning.MaxPinnedCPUsPerNamespace
	}
	return rules
}

// apply determines which pods the rules refuse.
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

// rulesFor returns the rules for one pod. The request of a pod that only the runtime has reported is unknown: the rule
// about requests applies later.
func rulesFor(p *cluster.Pod, rules placement.Rules) placement.Rules {
	rules.WholeRequest = rules.WholeRequest && !p.Provisional
	return rules
}

// first is the order in which pods get CPUs: pods that have some, then by the time of binding, which is unknown for
// provisional pods.
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
