package inventory

import (
	"cmp"
	"slices"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/cluster"
	"github.com/berth-project/berth/internal/placement"
	"github.com/berth-project/berth/internal/workload"
)

// capped says, by UID, which pods may not have exclusive CPUs by the administrator's
// rules, and why. The scheduler has the same rules, but a pod with a node's name in its
// spec, or with another scheduler, never met it. A namespace's CPUs are counted on this
// node: the pods that were bound first have theirs. Static pods are the administrator's.
func (inv *Inventory) capped(pods []*cluster.Pod) map[string]string {
	pinning := inv.admin.Pinning
	rules := placement.Rules{Namespaces: pinning.Namespaces, WholeRequest: pinning.RequestBelowLimit == v1alpha1.RequestBelowLimitDeny}
	if pinning.MaxPinnedCPUsPerNamespace != nil {
		rules.MostCPUs = *pinning.MaxPinnedCPUsPerNamespace
	}
	refused, held := map[string]string{}, map[string]int64{}
	pods = slices.SortedFunc(slices.Values(pods), func(a, b *cluster.Pod) int {
		return cmp.Or(a.Bound.Compare(b.Bound), cmp.Compare(a.UID, b.UID))
	})
	for _, p := range pods {
		if p.Ended || p.Static || !workload.MayPin(p.Labels, p.Annotations) {
			continue
		}
		pin, problems := workload.PinningOf(p.Pod)
		if !pin.Wanted || len(problems) > 0 {
			continue
		}
		ask := placement.AskOf(pin)
		if why, _ := rules.Refusal(p.Namespace, &ask, held[p.Namespace]); why != "" {
			refused[p.UID] = why
			continue
		}
		held[p.Namespace] += int64(ask.CPUs())
	}
	return refused
}
