package schedule

import (
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

// caps knows what the profiles of a scheduler together allow the namespaces. It is complete before any pod is seen. A
// nil *caps allows everything.
type caps struct {
	usage *usage

	mu    sync.Mutex
	rules []rules
}

// add adds the rules of a profile.
func (c *caps) add(r rules) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rules = append(c.rules, r)
}

// mayHave reports whether some profile would let a bound pod have that many CPUs.
func (c *caps) mayHave(pod *v1.Pod, cpus int) bool {
	if c == nil {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.rules {
		if !r.Allows(pod.Namespace) {
			continue
		}
		if r.MostCPUs == 0 || c.usage.of(pod.Namespace, pod.UID)+int64(cpus) <= r.MostCPUs {
			return true
		}
	}
	return len(c.rules) == 0
}

// usage counts the pinned CPUs of each namespace: of reservations, and of pods that the API server shows bound. It
// counts nothing until a profile has a maximum.
type usage struct {
	asked  atomic.Bool
	mu     sync.Mutex
	spaces map[string]*spaceUsage
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
