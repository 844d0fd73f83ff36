package strategy

import (
	"slices"
	"strconv"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/intent/workload"
)

// layer is the policy that one source has for a pod.
type layer struct {
	policy v1alpha1.CPUBurst
	source string
}

// Burst decides the burst policy of a pod; its Source names the origin. bestEffort is the Kubernetes class BestEffort.
func (s *Strategies) Burst(pod *workload.Pod, bestEffort bool) (workload.Burst, workload.Findings) {
	admin := s.admin
	admin.Strategy, admin.Source = s.fold(pod, s.Class(pod, bestEffort).Offline())
	return workload.BurstOf(pod.Annotations, admin)
}

// fold merges the layers, the most specific first, and returns the source of the policy field.
func (s *Strategies) fold(pod *workload.Pod, offline bool) (v1alpha1.CPUBurst, string) {
	var sum v1alpha1.CPUBurst
	source := "default"
	for _, l := range s.layers(pod, offline) {
		if sum.Policy == nil && l.policy.Policy != nil {
			source = l.source
		}
		sum = sum.Inherit(l.policy)
	}
	return sum, source
}

// layers are the sources below the pod's annotation, the most specific first.
func (s *Strategies) layers(pod *workload.Pod, offline bool) []layer {
	var all []layer
	if label, found := s.selected.value.match(pod.Labels); found {
		all = append(all, layer{s.selected.value.policy, s.selected.source("label " + label)})
	}
	if offline {
		none := v1alpha1.CPUBurstNone
		all = append(all, layer{v1alpha1.CPUBurst{Policy: &none}, "offline pods burst only where they ask themselves"})
	}
	if l, found := s.namespace(pod.Namespace); found {
		all = append(all, l)
	}
	if node := s.nodeStrategy(); node != nil {
		all = append(all, layer{node.CPUBurst, s.burst.source(s.nodeName())})
	}
	if s.burst.from == "" {
		return append(all, layer{s.admin.Strategy, "clusterStrategy of " + s.admin.File})
	}
	return append(all, layer{s.burst.value.ClusterStrategy.CPUBurst, s.burst.source("clusterStrategy")})
}

// nodeName names the node strategy that matches, for messages.
func (s *Strategies) nodeName() string {
	return "nodeStrategies[" + strconv.Itoa(s.node) + "]"
}

// namespace returns the policy that the namespace lists have for a namespace.
func (s *Strategies) namespace(name string) (layer, bool) {
	policy := v1alpha1.CPUBurstNone
	switch lists := s.namespaces.value; {
	case slices.Contains(lists.DisabledNamespaces, name):
		return layer{v1alpha1.CPUBurst{Policy: &policy}, s.namespaces.source("disabledNamespaces")}, true
	case slices.Contains(lists.EnabledNamespaces, name):
		policy = v1alpha1.CPUBurstAuto
		return layer{v1alpha1.CPUBurst{Policy: &policy}, s.namespaces.source("enabledNamespaces")}, true
	}
	return layer{}, false
}

// contradictions reports namespaces that are in both lists.
func (r *reader) contradictions(lists kept[v1alpha1.NamespaceSwitch]) {
	for i, name := range lists.value.EnabledNamespaces {
		if slices.Contains(lists.value.DisabledNamespaces, name) {
			r.add(lists.from, KeyNamespaces, "", v1alpha1.FieldErrors{{
				Field: "enabledNamespaces[" + strconv.Itoa(i) + "]", Value: v1alpha1.Show(name),
				Allowed: "not in disabledNamespaces too, which counts",
			}})
		}
	}
}
