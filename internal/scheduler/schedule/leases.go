package schedule

import (
	"context"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"
)

// agents knows which agents of the nodes are alive, by their Leases, and opens and closes the nodes accordingly. It is
// safe for concurrent use.
type agents struct {
	*background

	handle fwk.Handle
	nodes  *directory
	queue  *queue
	// namespace has the Leases. staleAfter is how long an agent may be silent; 0 means forever.
	namespace  string
	staleAfter time.Duration
	// listed reports whether the Leases were listed; before that nothing is known about any agent.
	listed atomic.Bool
	clock  leaseClock
	// opening reports that the pods which wait for a node to open are about to be tried.
	opening atomic.Bool
}

// watchLeases follows the Leases of the agents until ctx ends. The function that it returns reports whether they were
// listed.
func (a *agents) watchLeases(unreadable func()) (func() bool, error) {
	leases := a.handle.ClientSet().CoordinationV1().Leases(a.namespace)
	source := cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return leases.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return leases.Watch(ctx, options)
		},
	}, a.handle.ClientSet())
	informer := cache.NewSharedIndexInformer(source, &coordinationv1.Lease{}, 0, cache.Indexers{})
	if err := informer.SetTransform(reduceLease); err != nil {
		return nil, watchError("Leases", err)
	}
	listed, err := a.watch(informer, "Leases in "+a.namespace, unreadable, handler(a.onLease, a.offLease))
	if err != nil {
		return nil, err
	}
	a.spawn(func(ctx context.Context) {
		if wait(ctx, listed) {
			a.clock.hear(time.Now())
			a.listed.Store(true)
			a.lookAtAgents(time.Now())
		}
	})
	return a.listed.Load, nil
}

// reduceLease reduces a Lease to the fields in use.
func reduceLease(object any) (any, error) {
	lease, ok := object.(*coordinationv1.Lease)
	if !ok {
		return object, nil
	}
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: lease.Namespace, Name: lease.Name, ResourceVersion: lease.ResourceVersion,
		},
		Spec: coordinationv1.LeaseSpec{RenewTime: lease.Spec.RenewTime},
	}, nil
}

func (a *agents) onLease(_, lease *coordinationv1.Lease) {
	if lease.Spec.RenewTime != nil {
		a.heard(lease.Name, lease.Spec.RenewTime.Time, time.Now())
	}
}

func (a *agents) offLease(lease *coordinationv1.Lease) {
	n := a.nodes.find(lease.Name)
	if n == nil {
		return
	}
	n.mu.Lock()
	n.access.renewed, n.access.heard = time.Time{}, time.Time{}
	n.access.agent = unheard
	n.settle()
	n.mu.Unlock()
	a.nodes.forget(n)
}

// heard records a renewal. Clocks of nodes may be wrong, so the time at which this host saw the Lease change decides.
// The age of a Lease at first sight is not known, so its own time applies then, if it is past.
func (a *agents) heard(name string, renewed, now time.Time) {
	n := a.nodes.lock(name)
	first := n.access.heard.IsZero()
	if !first && renewed.Equal(n.access.renewed) {
		n.mu.Unlock()
		return
	}
	a.clock.hear(now)
	n.access.renewed, n.access.heard = renewed, a.clock.at(now)
	if first && renewed.Before(now) {
		n.access.heard = a.clock.at(renewed)
	}
	opened := a.look(n, now)
	n.mu.Unlock()
	if opened {
		a.opened()
	}
}

// look updates whether the agent of a node is alive, and reports whether this has just opened the node for pinned pods.
// The caller holds n.mu.
func (a *agents) look(n *node, now time.Time) bool {
	before := n.access.agent
	switch {
	case a.staleAfter == 0:
		n.access.agent = alive
	case !a.listed.Load():
		n.access.agent = unread
	case n.access.heard.IsZero() || a.clock.at(now).Sub(n.access.heard) > a.staleAfter:
		n.access.agent = unheard
	default:
		n.access.agent = alive
	}
	if before == n.access.agent {
		return false
	}
	return n.settle()
}

// lookAtAgents finds the agents that became silent or came back.
func (a *agents) lookAtAgents(now time.Time) {
	a.tickLeases(now)
	opened := false
	for _, n := range a.nodes.all() {
		n.mu.Lock()
		opened = a.look(n, now) || opened
		n.mu.Unlock()
	}
	if opened {
		a.opened()
	}
}
