package place

import (
	"maps"
	"slices"
	"strings"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/workload"
)

// askingKeys returns the annotations that ask for CPUs and say which. Together
// with the class they are read once, when a pod is created.
func askingKeys() []string {
	return []string{
		v1alpha1.AnnotationCPUSetScheduler, v1alpha1.AnnotationCPUPolicy,
		v1alpha1.AnnotationResourceSpec, v1alpha1.AnnotationNUMATopologySpec,
	}
}

// keysOf returns those keys of a pod that are there, nil for most pods.
func keysOf(p *workload.Pod) map[string]string {
	var keys map[string]string
	note := func(key string, from map[string]string) {
		if value, found := from[key]; found {
			if keys == nil {
				keys = map[string]string{}
			}
			keys[key] = value
		}
	}
	note(v1alpha1.LabelQoSClass, p.Labels)
	for _, key := range askingKeys() {
		note(key, p.Annotations)
	}
	return keys
}

// read decides what the pod asks for next, by the keys as they were first and all other
// fields as they are now, and notes which keys changed since.
func (a *asked) read(now workload.Pod) {
	if a.late = a.changed(&now); a.late != "" {
		now.Labels, now.Annotations = maps.Clone(now.Labels), maps.Clone(now.Annotations)
		for _, key := range askingKeys() {
			restore(&now.Annotations, key, a.keys)
		}
		restore(&now.Labels, v1alpha1.LabelQoSClass, a.keys)
	}
	a.next, a.problems = workload.PinningOf(now)
}

func restore(in *map[string]string, key string, from map[string]string) {
	value, found := from[key]
	switch {
	case !found:
		delete(*in, key)
	case *in == nil:
		*in = map[string]string{key: value}
	default:
		(*in)[key] = value
	}
}

// changed names the keys that are not what they were first, "" for none.
func (a *asked) changed(spec *workload.Pod) string {
	now := keysOf(spec)
	if maps.Equal(a.keys, now) {
		return ""
	}
	var names []string
	for _, key := range append(askingKeys(), v1alpha1.LabelQoSClass) {
		before, had := a.keys[key]
		if value, has := now[key]; had != has || before != value {
			names = append(names, key)
		}
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// Required says whether a pod waits rather than run without exclusive CPUs, or
// with others than its policies say: it requires a bind policy, an exclusivity
// or an exclusive NUMA node, or its NUMA policy is Restricted or SingleNUMANode.
// What the node's administrator requires makes no pod wait here.
func Required(p workload.Pinning) bool {
	return p.Wanted && (p.BindRequired || p.Exclusive != "" && p.ExclusiveRequired ||
		p.NUMAExclusive == v1alpha1.NUMAExclusiveRequired ||
		p.NUMA == v1alpha1.NUMARestricted || p.NUMA == v1alpha1.NUMASingleNUMANode)
}
