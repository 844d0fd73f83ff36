package cluster

import (
	"reflect"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/intent/kubepod"
)

// Annotations of static pods: the kubelet sets the first on the pods that it runs, and the second on their mirrors.
const (
	annotationSource = "kubernetes.io/config.source"
	annotationMirror = "kubernetes.io/config.mirror"
	sourceAPI        = "api"
)

// podOf reduces a pod to the fields that Berth needs. node is this node.
func podOf(p *v1.Pod, from Source, node string) *Pod {
	slim := *p
	slim.Annotations = v1alpha1.OwnAnnotations(p.Annotations)
	out := &Pod{
		Pod:      kubepod.Of(&slim),
		Key:      p.Namespace + "/" + p.Name,
		Object:   Object{p.Namespace, p.Name, string(p.UID)},
		Deleting: p.DeletionTimestamp != nil,
		From:     from,
		version:  p.ResourceVersion,
	}
	out.Bound, out.Ended = boundAt(p), kubepod.Complete(p)
	out.BestEffort = p.Status.QOSClass == v1.PodQOSBestEffort || p.Status.QOSClass == "" && asksForNothing(out)
	if p.Spec.RuntimeClassName != nil {
		out.RuntimeClass = *p.Spec.RuntimeClassName
	}
	switch {
	case from == Kubelet && FromFile(p.Annotations):
		out.Static, out.Object.UID = true, ""
	case from == APIServer && p.Annotations[annotationMirror] != "" && ownedByNode(p, node):
		out.Static, out.UID = true, p.Annotations[annotationMirror]
	}
	return out
}

// FromFile reports whether a pod is from the kubelet's own files, by annotations from the kubelet or the container
// runtime. Pods on the API server may have any annotations.
func FromFile(annotations map[string]string) bool {
	source := annotations[annotationSource]
	return source != "" && source != sourceAPI
}

// asksForNothing reports whether a pod has neither requests nor limits, the definition of BestEffort. A static pod may
// have no status yet.
func asksForNothing(p *Pod) bool {
	for _, c := range slices.Concat(p.Containers, p.Init) {
		if c.CPURequest != 0 || c.CPULimit != 0 || c.MemoryRequest != 0 || c.MemoryLimit != 0 {
			return false
		}
	}
	return p.CPURequest == 0 && p.CPULimit == 0 && p.MemoryRequest == 0 && p.MemoryLimit == 0
}

// boundAt returns when a pod was bound to this node.
func boundAt(p *v1.Pod) time.Time {
	for _, condition := range p.Status.Conditions {
		if condition.Type == v1.PodScheduled && condition.Status == v1.ConditionTrue && !condition.LastTransitionTime.IsZero() {
			return condition.LastTransitionTime.Time
		}
	}
	return p.CreationTimestamp.Time
}

// ownedByNode reports whether a kubelet of this node made a mirror. Anyone can write the annotation.
func ownedByNode(p *v1.Pod, node string) bool {
	for _, owner := range p.OwnerReferences {
		if owner.Kind == "Node" && owner.Name == node && owner.Controller != nil && *owner.Controller {
			return true
		}
	}
	return false
}

// same reports whether two readings of a pod are equal in all that matters.
func (p *Pod) same(o *Pod) bool {
	if p.version == o.version && p.version != "" && p.UID == o.UID && p.From == o.From {
		return true
	}
	a, b := *p, *o
	a.version, b.version = "", ""
	return reflect.DeepEqual(a, b)
}
