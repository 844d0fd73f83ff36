package inventory

import (
	"maps"
	"slices"
	"strings"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/cluster"
	"github.com/berth-project/berth/internal/unit"
	"github.com/berth-project/berth/internal/workload"
)

// pods are the pods of the node, by UID.
type pods struct {
	// known are those that the cluster reported, early those that only the runtime has.
	known, early map[string]*cluster.Pod
}

// Pod returns what the cluster says of a pod, nil where it has not reported one.
func (ps *pods) Pod(uid string) *cluster.Pod { return ps.known[uid] }

// limitOf is what the spec of a pod limits a container to, 0 for nothing.
func (ps *pods) limitOf(uid, container string) unit.CPUs {
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
func (ps *pods) NameOf(uid string) string {
	if name, found := strings.CutPrefix(uid, workload.UIDPrefix); found {
		name, _, _ = strings.Cut(name, "/")
		return name
	}
	if p := ps.known[uid]; p != nil {
		return p.Key
	}
	return uid
}

// replacePods replaces the pods that the cluster reported. Those that only the runtime has
// reported stay as long as it has a sandbox for them.
func (ps *pods) replacePods(all []*cluster.Pod, hasSandbox func(uid string) bool) {
	ps.known = make(map[string]*cluster.Pod, len(all))
	for _, p := range all {
		ps.known[p.UID] = p
		delete(ps.early, p.UID)
	}
	maps.DeleteFunc(ps.early, func(uid string, _ *cluster.Pod) bool { return !hasSandbox(uid) })
}

// allPods returns all of them.
func (ps *pods) allPods() []*cluster.Pod {
	return slices.AppendSeq(slices.Collect(maps.Values(ps.known)), maps.Values(ps.early))
}

// Unplaced returns the pods, as "namespace/name", that are not over and have no placement.
func (ps *pods) Unplaced() map[string]bool {
	all := map[string]bool{}
	for _, p := range ps.allPods() {
		if !p.Ended && p.Annotations[v1alpha1.AnnotationPlacement] == "" {
			all[p.Key] = true
		}
	}
	return all
}
