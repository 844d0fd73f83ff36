package schedule

import (
	"context"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// watchLeases follows the Leases of the agents until ctx ends, and returns what
// says that they were listed.
func (c *core) watchLeases(unreadable func()) (func() bool, error) {
	leases := c.handle.ClientSet().CoordinationV1().Leases(c.settings.leaseNamespace)
	source := cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return leases.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return leases.Watch(ctx, options)
		},
	}, c.handle.ClientSet())
	informer := cache.NewSharedIndexInformer(source, &coordinationv1.Lease{}, 0, cache.Indexers{})
	if err := informer.SetTransform(reduceLease); err != nil {
		return nil, watchError("Leases", err)
	}
	listed, err := c.watch(informer, "Leases in "+c.settings.leaseNamespace, unreadable, cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { c.onLease(object) },
		UpdateFunc: func(_, object any) { c.onLease(object) },
		DeleteFunc: func(object any) { c.offLease(object) },
	})
	if err != nil {
		return nil, err
	}
	c.spawn(func(ctx context.Context) {
		if (await{ctx, listed}).wait() {
			c.clock.hear(time.Now())
			c.leases.Store(true)
			c.lookAtAgents(time.Now())
		}
	})
	return c.leases.Load, nil
}

// reduceLease leaves of a Lease what is looked at.
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

func (c *core) onLease(object any) {
	lease, ok := object.(*coordinationv1.Lease)
	if !ok || lease.Spec.RenewTime == nil {
		return
	}
	c.heard(lease.Name, lease.Spec.RenewTime.Time, time.Now())
}

func (c *core) offLease(object any) {
	if gone, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = gone.Obj
	}
	lease, ok := object.(*coordinationv1.Lease)
	if !ok {
		return
	}
	n := c.node(lease.Name)
	if n == nil {
		return
	}
	n.mu.Lock()
	n.access.renewed, n.access.heard = time.Time{}, time.Time{}
	n.access.agent = unheard
	n.settle()
	n.mu.Unlock()
	c.forget(n)
}

// heard takes over a renewal. Clocks of nodes may be wrong, so what counts is
// when this host saw the Lease change; how old it is at
// first sight is not known, and the Lease's own time counts as far as it is past.
func (c *core) heard(name string, renewed, now time.Time) {
	n := c.lock(name)
	first := n.access.heard.IsZero()
	if !first && renewed.Equal(n.access.renewed) {
		n.mu.Unlock()
		return
	}
	c.clock.hear(now)
	n.access.renewed, n.access.heard = renewed, c.clock.at(now)
	if first && renewed.Before(now) {
		n.access.heard = c.clock.at(renewed)
	}
	opened := n.look(c, now)
	n.mu.Unlock()
	if opened {
		c.opened()
	}
}

// look works out whether the agent lives, and says whether that has just opened
// the node for pinned pods. The caller holds mu.
func (n *node) look(c *core, now time.Time) bool {
	before := n.access.agent
	switch {
	case c.settings.staleAfter == 0:
		n.access.agent = alive
	case !c.leases.Load():
		n.access.agent = unread
	case n.access.heard.IsZero() || c.clock.at(now).Sub(n.access.heard) > c.settings.staleAfter:
		n.access.agent = unheard
	default:
		n.access.agent = alive
	}
	if before == n.access.agent {
		return false
	}
	return n.settle()
}

// lookAtAgents finds the agents that fell silent, and those that came back.
func (c *core) lookAtAgents(now time.Time) {
	c.tickLeases(now)
	opened := false
	for _, n := range c.nodes.all() {
		n.mu.Lock()
		opened = n.look(c, now) || opened
		n.mu.Unlock()
	}
	if opened {
		c.opened()
	}
}
