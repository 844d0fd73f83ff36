package workload

import (
	"maps"
	"slices"
	"strings"

	"github.com/berth-project/berth/api/v1alpha1"
)

// AskingKeys are the class of a pod and its annotations that request CPUs and specify them, as they were when the pod
// was created: later changes of them have no effect. Most pods have none.
type AskingKeys map[string]string

// askingAnnotations returns the keys of AskingKeys that are annotations.
func askingAnnotations() []string {
	return []string{
		v1alpha1.AnnotationCPUSetScheduler, v1alpha1.AnnotationCPUPolicy,
		v1alpha1.AnnotationResourceSpec, v1alpha1.AnnotationNUMATopologySpec,
	}
}

// AskingKeysOf returns the asking keys of a pod, nil if it has none.
func AskingKeysOf(p *Pod) AskingKeys {
	var keys AskingKeys
	note := func(key string, from map[string]string) {
		if value, found := from[key]; found {
			if keys == nil {
				keys = AskingKeys{}
			}
			keys[key] = value
		}
	}
	note(v1alpha1.LabelQoSClass, p.Labels)
	for _, key := range askingAnnotations() {
		note(key, p.Annotations)
	}
	return keys
}

// Changed names the keys of a pod that differ from their first values, "" for none.
func (k AskingKeys) Changed(p *Pod) string {
	now := AskingKeysOf(p)
	if maps.Equal(k, now) {
		return ""
	}
	var names []string
	for _, key := range append(askingAnnotations(), v1alpha1.LabelQoSClass) {
		before, had := k[key]
		if value, has := now[key]; had != has || before != value {
			names = append(names, key)
		}
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// Of returns the pod with the first values of the keys, and all else unchanged.
func (k AskingKeys) Of(p Pod) Pod {
	p.Labels, p.Annotations = maps.Clone(p.Labels), maps.Clone(p.Annotations)
	for _, key := range askingAnnotations() {
		k.restore(&p.Annotations, key)
	}
	k.restore(&p.Labels, v1alpha1.LabelQoSClass)
	return p
}

func (k AskingKeys) restore(in *map[string]string, key string) {
	value, found := k[key]
	switch {
	case !found:
		delete(*in, key)
	case *in == nil:
		*in = map[string]string{key: value}
	default:
		(*in)[key] = value
	}
}
