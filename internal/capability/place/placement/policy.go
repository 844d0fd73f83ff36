package placement

import (
	"slices"
	"strings"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability/place/alloc"
)

// NodePolicy is what a node's administrator decided for every pod with exclusive CPUs there. The zero value decides
// nothing. It is comparable.
type NodePolicy struct {
	// Bind is required of every pinned pod of the node, unless it is empty.
	Bind v1alpha1.NodeCPUBindPolicy
	// NUMA applies to pods that set none themselves, unless it is empty.
	NUMA v1alpha1.NUMATopologyPolicy
	// Strategy applies to pods that set none themselves, unless it is empty.
	Strategy v1alpha1.NUMAAllocateStrategy
}

// PolicyOf reads the labels of a node. An invalid label is a problem and decides nothing; the other labels apply.
func PolicyOf(labels map[string]string) (NodePolicy, v1alpha1.FieldErrors) {
	var p NodePolicy
	var problems v1alpha1.FieldErrors
	p.Bind = label(&problems, labels, v1alpha1.NodeLabelCPUBindPolicy, v1alpha1.NodeCPUBindPolicies())
	if p.Bind == v1alpha1.NodeCPUBindNone {
		p.Bind = ""
	}
	p.NUMA = label(&problems, labels, v1alpha1.NodeLabelNUMATopologyPolicy, v1alpha1.NUMATopologyPolicies())
	p.Strategy = label(&problems, labels, v1alpha1.NodeLabelNUMAAllocateStrategy, v1alpha1.NUMAAllocateStrategies())
	return p, problems
}

// label returns the value of one label, or "" if the value is not allowed.
func label[T ~string](problems *v1alpha1.FieldErrors, labels map[string]string, key string, allowed []T) T {
	value := T(labels[key])
	if value == "" || slices.Contains(allowed, value) {
		return value
	}
	names := make([]string, len(allowed))
	for i, one := range allowed {
		names[i] = string(one)
	}
	*problems = append(*problems, v1alpha1.FieldError{
		Field:   "metadata.labels[" + key + "]",
		Value:   v1alpha1.Show(string(value)),
		Allowed: "one of " + strings.Join(names, ", "),
	})
	return ""
}

// apply changes the pod's request to what it is on this node. A pod that requires something else is refused, whatever
// runs there.
func (p NodePolicy) apply(a *Ask, r *alloc.Request) Refusal {
	if p.Strategy != "" && a.Pod.Strategy == "" {
		r.Strategy = strategyOf(p.Strategy)
	}
	if p.NUMA != "" && a.Pod.NUMA != "" && p.NUMA != a.Pod.NUMA {
		return Refusal{Code: NUMAPolicyDiffers}
	}
	if a.Pod.NUMA == "" {
		r.NUMA = numaOf(p.NUMA)
	}
	if p.Bind == "" {
		return Refusal{}
	}
	bind := named[alloc.Bind](p.Bind, v1alpha1.NodeCPUBindSpreadByPCPUs)
	if r.BindStrength == alloc.Required && r.Bind != bind {
		return Refusal{Code: BindPolicyDiffers}
	}
	r.Bind, r.BindStrength = bind, alloc.Required
	return Refusal{}
}
