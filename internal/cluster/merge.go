package cluster

import (
	"cmp"
	"slices"
	"strconv"
	"time"
)

// view is what the two sources of pods say.
type view struct {
	// api is what the API server said last, and listed whether it ever did.
	api    []*Pod
	listed bool
	// awaySince is when it stopped answering; zero while it answers.
	awaySince time.Time
	// gone are the UIDs of pods that it had and has no more.
	gone map[string]time.Time

	// kubelet is what the kubelet said last, at the time asked; zero for never.
	kubelet []*Pod
	asked   time.Time

	// before is what an earlier agent knew.
	before []*Pod
}

// What is believed of the kubelet's list while the API server is away.
const (
	// patience is how long a pod is kept that the kubelet does not list: it may
	// not have heard of it yet when the API server went away.
	patience = 10 * time.Second
	// freshness is how old its list may be.
	freshness = 15 * time.Second
)

// pods merges the two sources.
func (v *view) pods(now time.Time) ([]*Pod, Source) {
	fresh := !v.asked.IsZero() && now.Sub(v.asked) < freshness
	switch {
	case v.listed && v.awaySince.IsZero():
		return ordered(v.beside()), APIServer
	case fresh && (!v.listed || v.asked.After(v.awaySince)):
		return ordered(v.instead()), Kubelet
	case v.listed || !v.asked.IsZero():
		return ordered(v.instead()), Remembered
	case !v.awaySince.IsZero() && len(v.before) > 0:
		return v.before, Remembered
	}
	return nil, Nowhere
}

// lost says whether the API server removed a pod that the kubelet still lists.
func (v *view) lost(pod *Pod) bool {
	_, lost := v.gone[pod.UID]
	return lost
}

// beside returns the API server's pods, and those that only the kubelet has:
// static ones without a mirror, and others that the watch has not brought yet.
func (v *view) beside() map[string]*Pod {
	all := byUID(v.api)
	for _, pod := range v.kubelet {
		if all[pod.UID] == nil && !v.lost(pod) {
			all[pod.UID] = pod
		}
	}
	return all
}

// instead returns the kubelet's pods, in the newer of the two readings, and those
// of the API server that the kubelet may not know yet.
func (v *view) instead() map[string]*Pod {
	if v.asked.IsZero() {
		return byUID(v.api)
	}
	known, all := byUID(v.api), map[string]*Pod{}
	for _, pod := range v.kubelet {
		if !v.lost(pod) {
			all[pod.UID] = newer(known[pod.UID], pod)
		}
	}
	if v.asked.Before(v.awaySince.Add(patience)) {
		for uid, pod := range known {
			if all[uid] == nil {
				all[uid] = pod
			}
		}
	}
	return all
}

// newer returns the newer reading. A static pod's own is the kubelet's, but its
// mirror has the name on the API server and the annotations that were written
// there.
func newer(api, kubelet *Pod) *Pod {
	if api == nil {
		return kubelet
	}
	if api.Static && kubelet.Static {
		both := *api
		both.Ended, both.Deleting = kubelet.Ended, kubelet.Deleting
		return &both
	}
	if version(api) >= version(kubelet) {
		return api
	}
	return kubelet
}

// version returns the resourceVersion as a number; those of one resource can be
// compared.
func version(p *Pod) uint64 {
	n, err := strconv.ParseUint(p.version, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// byUID finds pods by UID. A mirror that claims the UID of another pod loses to
// the one that has it, and to an older mirror.
func byUID(pods []*Pod) map[string]*Pod {
	all := make(map[string]*Pod, len(pods))
	for _, pod := range pods {
		if other := all[pod.UID]; other == nil || claim(pod, other) < 0 {
			all[pod.UID] = pod
		}
	}
	return all
}

// claim is negative if a has the better claim to their UID.
func claim(a, b *Pod) int {
	if a.Static != b.Static {
		if b.Static {
			return -1
		}
		return 1
	}
	return cmp.Or(a.Bound.Compare(b.Bound), cmp.Compare(a.Object.UID, b.Object.UID))
}

func ordered(pods map[string]*Pod) []*Pod {
	all := make([]*Pod, 0, len(pods))
	for _, pod := range pods {
		all = append(all, pod)
	}
	slices.SortFunc(all, func(a, b *Pod) int { return cmp.Compare(a.UID, b.UID) })
	return all
}
