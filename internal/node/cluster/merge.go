package cluster

import (
	"cmp"
	"slices"
	"strconv"
	"time"
)

// view is what the two sources of pods say.
type view struct {
	// api is the API server's last list, and listed whether there ever was one.
	api    []*Pod
	listed bool
	// awaySince is when the API server stopped answering; zero while it answers.
	awaySince time.Time
	// gone are the UIDs of pods that the API server has removed.
	gone map[string]time.Time

	// kubelet is the kubelet's last list, requested at the time asked; zero for never.
	kubelet []*Pod
	asked   time.Time

	// before is what an earlier agent knew.
	before []*Pod
}

// Limits of the kubelet's list while the API server is away.
const (
	// patience is how long a pod stays that the kubelet does not list: the kubelet may not have heard of it before the
	// API server went away.
	patience = 10 * time.Second
	// freshness is the greatest age of the kubelet's list.
	freshness = 15 * time.Second
)

// pods merges the two sources, and returns which of them is in use.
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

// lost reports whether the API server removed a pod that the kubelet still lists.
func (v *view) lost(pod *Pod) bool {
	_, lost := v.gone[pod.UID]
	return lost
}

// beside returns the API server's pods, and the pods that only the kubelet lists: static pods without a mirror, and
// pods that the watch has not brought yet.
func (v *view) beside() map[string]*Pod {
	all := byUID(v.api)
	for _, pod := range v.kubelet {
		if all[pod.UID] == nil && !v.lost(pod) {
			all[pod.UID] = pod
		}
	}
	return all
}

// instead returns the kubelet's pods, each in its newer reading, and pods of the API server that the kubelet may not
// know yet.
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

// newer returns the newer reading. For a static pod the kubelet's state is used, with the name and the annotations of
// its mirror on the API server.
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

// version returns the resourceVersion as a number, which can be compared within one resource.
func version(p *Pod) uint64 {
	n, err := strconv.ParseUint(p.version, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// byUID maps pods by UID. A mirror that claims the UID of another pod loses to that pod, and to an older mirror.
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
