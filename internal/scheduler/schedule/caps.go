package schedule

import (
	"slices"
	"sync"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability/place/placement"
)

// rules are what the administrator allows the namespaces of one profile.
type rules struct {
	placement.Rules
	// strategy applies to pods and nodes that name none.
	strategy v1alpha1.NUMAAllocateStrategy
	// saysRepack makes Filter report after how many moves a node would take the pod.
	saysRepack bool
}

func rulesOf(a v1alpha1.SchedulerArgs) rules {
	return rules{
		Rules: placement.Rules{
			Namespaces:   a.Namespaces,
			MostCPUs:     *a.MaxPinnedCPUsPerNamespace,
			WholeRequest: a.RequestBelowLimit == v1alpha1.RequestBelowLimitDeny,
		},
		strategy:   a.NUMAAllocateStrategy,
		saysRepack: a.SayFitsAfterRepack,
	}
}

// capped refuses a pod that its namespace may not have; nil means allowed.
func (p *Plugin) capped(pod *v1.Pod, cy *cycle) *fwk.Status {
	why, full := p.rules.Refusal(pod.Namespace, cy.ask, p.core.usage.of(pod.Namespace, pod.UID))
	switch {
	case why == "":
		return nil
	case full:
		// Evicting a pod elsewhere would help, but preemption looks at nodes one by one and would evict the wrong pods.
		return p.refuse(cy, refusedByCap, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, why))
	}
	return p.refuse(cy, refusedByRule, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, why))
}

// usage counts the pinned CPUs of each namespace: of reservations, and of pods that the API server shows bound. It
// counts nothing until a profile has a maximum. The zero value is ready for use, and safe for concurrent use.
type usage struct {
	asked  atomic.Bool
	mu     sync.Mutex
	spaces map[string]*spaceUsage
	// rules are those of all profiles of the scheduler. They are complete before any pod is seen.
	rules []rules
}

// allow adds the rules of a profile.
func (u *usage) allow(r rules) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.rules = append(u.rules, r)
	if r.MostCPUs > 0 {
		u.asked.Store(true) // no informer runs yet, so nothing was missed
	}
}

// mayHave reports whether some profile would let a bound pod have that many CPUs. A nil *usage allows everything.
func (u *usage) mayHave(pod *v1.Pod, cpus int) bool {
	if u == nil {
		return true
	}
	has := u.of(pod.Namespace, pod.UID) + int64(cpus)
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.rules) == 0 || slices.ContainsFunc(u.rules, func(r rules) bool {
		return r.Allows(pod.Namespace) && (r.MostCPUs == 0 || has <= r.MostCPUs)
	})
}

type spaceUsage struct {
	pods map[types.UID]int64
	sum  int64
}

// of returns how many CPUs the other pods of a namespace have.
func (u *usage) of(namespace string, other types.UID) int64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	space := u.spaces[namespace]
	if space == nil {
		return 0
	}
	return space.sum - space.pods[other]
}

// set records how many CPUs a pod has, 0 for none, and reports whether the namespace has fewer now.
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

// uncount forgets the CPUs of a pod in its namespace, and tries the pods again that wait for them: the queue's own hint
// may have come before the CPUs were subtracted.
func (c *core) uncount(namespace string, uid types.UID) {
	if c.usage.set(namespace, uid, 0) {
		c.queue.activate(refusedByCap)
	}
}
