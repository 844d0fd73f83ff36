package inventory

import (
	"maps"
	"slices"
	"strings"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/intent/workload"
	"github.com/berth-project/berth/internal/node/cluster"
	"github.com/berth-project/berth/internal/value/unit"
)

// Pods are the pods of the node, by UID.
type Pods struct {
	// known are the pods that the cluster reported, early those that only the runtime reported.
	known, early map[string]*cluster.Pod
}

// Pod returns the cluster's data of a pod, nil if the cluster has not reported the pod.
func (ps *Pods) Pod(uid string) *cluster.Pod { return ps.known[uid] }

// Early returns the runtime's data of a pod that the cluster has not reported yet, nil for other pods.
func (ps *Pods) Early(uid string) *cluster.Pod { return ps.early[uid] }

// LimitOf returns the CPU limit of a container in the pod's spec, 0 for none.
func (ps *Pods) LimitOf(uid, container string) unit.CPUs {
	p := ps.known[uid]
	if p == nil {
		return 0
	}
	for _, one := range slices.Concat(p.Containers, p.Init) {
		if one.Name == container {
			return unit.MilliCPUs(one.CPULimit)
		}
	}
	return 0
}

// NameOf returns the name of a pod or workload in messages, by UID.
func (ps *Pods) NameOf(uid string) string {
	if name, found := strings.CutPrefix(uid, workload.UIDPrefix); found {
		name, _, _ = strings.Cut(name, "/")
		return name
	}
	if p := ps.known[uid]; p != nil {
		return p.Key
	}
	return uid
}

// replace replaces the pods from the cluster. Pods that only the runtime has reported stay as long as the runtime
// has a sandbox for them.
func (ps *Pods) replace(all []*cluster.Pod, hasSandbox func(uid string) bool) {
	ps.known = make(map[string]*cluster.Pod, len(all))
	for _, p := range all {
		ps.known[p.UID] = p
		delete(ps.early, p.UID)
	}
	maps.DeleteFunc(ps.early, func(uid string, _ *cluster.Pod) bool { return !hasSandbox(uid) })
}

// All returns all pods, those first that the cluster reported.
func (ps *Pods) All() []*cluster.Pod {
	return slices.AppendSeq(slices.Collect(maps.Values(ps.known)), maps.Values(ps.early))
}

// Unplaced returns the pods, as "namespace/name", that have not ended and have no placement.
func (ps *Pods) Unplaced() map[string]bool {
	all := map[string]bool{}
	for _, p := range ps.All() {
		if !p.Ended && p.Annotations[v1alpha1.AnnotationPlacement] == "" {
			all[p.Key] = true
		}
	}
	return all
}
