package schedule

import (
	"strconv"
	"sync"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-project/berth/api/v1alpha1"
)

// rules are what the administrator allows the tenants of one profile.
type rules struct {
	// namespaces may pin; nil means that all may.
	namespaces map[string]bool
	// mostCPUs is the cap of a namespace; 0 sets none.
	mostCPUs int64
	// wholeRequest refuses pods that request less than they get.
	wholeRequest bool
	// patch hands the placement over before the binding, not with it.
	patch bool
}

func rulesOf(a v1alpha1.SchedulerArgs) rules {
	r := rules{
		mostCPUs:     *a.MaxPinnedCPUsPerNamespace,
		wholeRequest: a.RequestBelowLimit == v1alpha1.RequestBelowLimitDeny,
		patch:        a.BindMode == v1alpha1.BindModePatch,
	}
	if len(a.Namespaces) > 0 {
		r.namespaces = make(map[string]bool, len(a.Namespaces))
		for _, namespace := range a.Namespaces {
			r.namespaces[namespace] = true
		}
	}
	return r
}

// capped refuses a pod that its tenant may not have, nil for one that he may.
func (p *Plugin) capped(pod *v1.Pod, cy *cycle) *fwk.Status {
	if p.rules.namespaces != nil && !p.rules.namespaces[pod.Namespace] {
		return p.refuse(cy, refusedByRule, fwk.NewStatus(fwk.UnschedulableAndUnresolvable,
			"namespace "+pod.Namespace+" is not allowed to pin CPUs"))
	}
	if p.rules.wholeRequest && cy.ask.HiddenMilli() > 0 {
		return p.refuse(cy, refusedByRule, fwk.NewStatus(fwk.UnschedulableAndUnresolvable,
			"pinned containers must request as many CPUs as their limits say"))
	}
	if p.rules.mostCPUs == 0 {
		return nil
	}
	held, own := p.core.usage.of(pod.Namespace, pod.UID), int64(cy.ask.CPUs())
	switch {
	case own > p.rules.mostCPUs:
		return p.refuse(cy, refusedByRule, fwk.NewStatus(fwk.UnschedulableAndUnresolvable,
			"more pinned CPUs than the "+strconv.FormatInt(p.rules.mostCPUs, 10)+" that a namespace may have"))
	case held+own > p.rules.mostCPUs:
		// Evicting somebody elsewhere would help, but preemption looks at nodes
		// one by one and would evict the wrong pods.
		return p.refuse(cy, refusedByCap, fwk.NewStatus(fwk.UnschedulableAndUnresolvable,
			"namespace "+pod.Namespace+" has "+strconv.FormatInt(held, 10)+" of the "+
				strconv.FormatInt(p.rules.mostCPUs, 10)+" pinned CPUs that it may have"))
	}
	return nil
}

// tenants knows what the profiles of a scheduler, taken together, let tenants
// have. It is complete before any pod is seen. A nil one allows everything.
type tenants struct {
	usage *usage

	mu    sync.Mutex
	rules []rules
}

// add adds the rules of a profile.
func (t *tenants) add(r rules) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.rules = append(t.rules, r)
}

// mayHave says whether some profile would let a bound pod have as many CPUs.
func (t *tenants) mayHave(pod *v1.Pod, cpus int) bool {
	if t == nil {
		return true
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range t.rules {
		if r.namespaces != nil && !r.namespaces[pod.Namespace] {
			continue
		}
		if r.mostCPUs == 0 || t.usage.of(pod.Namespace, pod.UID)+int64(cpus) <= r.mostCPUs {
			return true
		}
	}
	return len(t.rules) == 0
}

// usage counts the pinned CPUs of each namespace: of pods that are bound as far
// as the API server told, and of reservations. It counts nothing before it is
// told that somebody asks.
type usage struct {
	asked  atomic.Bool
	mu     sync.Mutex
	spaces map[string]*spaceUsage
}

type spaceUsage struct {
	pods map[types.UID]int64
	sum  int64
}

// of returns what the other pods of a namespace have.
func (u *usage) of(namespace string, other types.UID) int64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	space := u.spaces[namespace]
	if space == nil {
		return 0
	}
	return space.sum - space.pods[other]
}

// set says how many CPUs a pod has, 0 for none, and returns whether others of
// the namespace may have more now.
func (u *usage) set(namespace string, uid types.UID, cpus int64) (fell bool) {
	if !u.asked.Load() {
		return false
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	space := u.spaces[namespace]
	if space == nil {
		if cpus == 0 {
			return false
		}
		if u.spaces == nil {
			u.spaces = map[string]*spaceUsage{}
		}
		space = &spaceUsage{pods: map[types.UID]int64{}}
		u.spaces[namespace] = space
	}
	change := cpus - space.pods[uid]
	space.sum += change
	if cpus > 0 {
		space.pods[uid] = cpus
		return change < 0
	}
	delete(space.pods, uid)
	if len(space.pods) == 0 {
		delete(u.spaces, namespace)
	}
	return change < 0
}

// uncount forgets what a pod has of its namespace, and tries those again that
// wait for that: the queue's own hint may have come before.
func (c *core) uncount(namespace string, uid types.UID) {
	if c.usage.set(namespace, uid, 0) {
		c.activate(refusedByCap)
	}
}
