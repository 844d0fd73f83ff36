package cluster

import (
	"context"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-project/berth/internal/node/apiclient"
)

// The scheduler pins nothing on a node whose Lease was not renewed for 180 seconds: two renewals may fail. Each renewal
// is an etcd write, for each node of the cluster. The kubelet's own Lease shows sooner that a node is gone.
const (
	leaseSeconds = 150
	renewEvery   = apiclient.LeaseRenewed
	// lookEvery is how often the agent reads the Lease between renewals, without a write for the API server. This shows
	// soon that the server hangs or that another agent took the Lease.
	lookEvery = apiclient.LeaseLooked
	// renewRetry is the pause after a failure: short, to know soon whether the API server is away.
	renewRetry = time.Second
	// renewLimit is the timeout of a request.
	renewLimit = apiclient.LeaseAnswered
	// watchOther is how often an agent reads a Lease that another agent holds.
	watchOther = 5 * time.Second
)

// leaseClient contains the requests that the agent makes for Leases of a namespace.
type leaseClient interface {
	Get(ctx context.Context, name string, options metav1.GetOptions) (*coordinationv1.Lease, error)
	Create(ctx context.Context, lease *coordinationv1.Lease, options metav1.CreateOptions) (*coordinationv1.Lease, error)
	Update(ctx context.Context, lease *coordinationv1.Lease, options metav1.UpdateOptions) (*coordinationv1.Lease, error)
}

// lessee holds the Lease of the node, or waits for it.
type lessee struct {
	client   leaseClient
	name     string
	identity string
	link     *link
	owner    func() *metav1.OwnerReference
	// changed is called after each change of Held or Other.
	changed func()

	// lease is the last known Lease, nil to read it again. seen is when its last renewal was first seen, by this host's
	// clock.
	lease *coordinationv1.Lease
	seen  time.Time
	// renewedAt is when this agent renewed it last, by the monotonic clock, which nobody sets.
	renewedAt time.Time

	mu    sync.Mutex
	state Lease
}

// current returns the state of the Lease.
func (l *lessee) current() Lease {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state
}

func (l *lessee) set(state Lease) {
	l.mu.Lock()
	changed := l.state.Held != state.Held || l.state.Other != state.Other
	l.state = state
	l.mu.Unlock()
	if changed {
		l.changed()
	}
}

// run holds the Lease until ctx ends, and then releases it.
func (l *lessee) run(ctx context.Context) {
	for ctx.Err() == nil {
		if !apiclient.Pause(ctx, l.step(ctx)) {
			break
		}
	}
	l.release(context.WithoutCancel(ctx))
}

// step does one step and returns the time until the next.
func (l *lessee) step(ctx context.Context) time.Duration {
	limited, cancel := context.WithTimeout(ctx, renewLimit)
	defer cancel()
	err := l.try(limited)
	if ctx.Err() != nil {
		return 0
	}
	if answered(err) {
		l.link.answered(time.Now(), nil)
	} else {
		l.link.answered(time.Now(), err)
	}
	switch {
	case apierrors.IsConflict(err) || apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err):
		l.lease = nil // Another writer changed or removed it: read it.
		return renewRetry
	case err != nil:
		return renewRetry
	case l.current().Other != "":
		return watchOther
	case l.lease == nil:
		return renewRetry
	}
	return lookEvery
}

// try renews the Lease, acquires it, or finds that another agent holds it.
func (l *lessee) try(ctx context.Context) error {
	held := l.current()
	if held.Held && l.lease != nil {
		if time.Since(l.renewedAt) < renewEvery {
			return l.look(ctx)
		}
		return l.take(ctx)
	}
	found, err := l.client.Get(ctx, l.name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		began := time.Now()
		made, err := l.client.Create(ctx, l.renewed(nil), metav1.CreateOptions{})
		return l.took(made, began, err)
	}
	if err != nil {
		return err
	}
	if other := l.other(found); other != "" {
		l.set(Lease{Other: other})
		return nil
	}
	return l.take(ctx)
}

func (l *lessee) take(ctx context.Context) error {
	began := time.Now()
	taken, err := l.client.Update(ctx, l.renewed(l.lease), metav1.UpdateOptions{})
	return l.took(taken, began, err)
}

// look reads the Lease from the API server's cache. If this agent no longer holds it, the next step reads it without
// the cache.
func (l *lessee) look(ctx context.Context) error {
	found, err := l.client.Get(ctx, l.name, metav1.GetOptions{ResourceVersion: "0"})
	if err != nil {
		return err
	}
	if holder := found.Spec.HolderIdentity; holder == nil || *holder != l.identity {
		l.lease = nil
	}
	return nil
}

func (l *lessee) took(lease *coordinationv1.Lease, began time.Time, err error) error {
	if err != nil {
		return err
	}
	l.lease, l.renewedAt = lease, began
	l.set(Lease{Held: true, Renewed: lease.Spec.RenewTime.Time})
	return nil
}

// other returns the identity of another live agent that holds the Lease. The clocks of hosts differ, so an agent is
// alive while this host sees its renewals change.
func (l *lessee) other(found *coordinationv1.Lease) string {
	if l.lease == nil || !found.Spec.RenewTime.Equal(l.lease.Spec.RenewTime) {
		l.seen = time.Now()
	}
	l.lease = found
	holder, seconds := found.Spec.HolderIdentity, int32(leaseSeconds)
	if holder == nil || *holder == "" || *holder == l.identity {
		return ""
	}
	if found.Spec.LeaseDurationSeconds != nil {
		seconds = min(max(*found.Spec.LeaseDurationSeconds, 1), leaseSeconds)
	}
	if time.Since(l.seen) > time.Duration(seconds)*time.Second {
		return ""
	}
	return *holder
}

// renewed returns the Lease with this agent as its holder, renewed now.
func (l *lessee) renewed(old *coordinationv1.Lease) *coordinationv1.Lease {
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: l.name}}
	if old != nil {
		lease = old.DeepCopy()
	}
	if owner := l.owner(); owner != nil {
		lease.OwnerReferences = []metav1.OwnerReference{*owner}
	}
	now, seconds := metav1.NowMicro(), int32(leaseSeconds)
	if lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity != l.identity {
		lease.Spec.AcquireTime = &now
	}
	lease.Spec.HolderIdentity, lease.Spec.RenewTime, lease.Spec.LeaseDurationSeconds = &l.identity, &now, &seconds
	return lease
}

// release lets the next agent of the node start at once. It does not change the renewal time, so the scheduler sees
// that there is no agent.
func (l *lessee) release(ctx context.Context) {
	if l.lease == nil || !l.current().Held {
		return
	}
	limited, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	lease, none := l.lease.DeepCopy(), ""
	lease.Spec.HolderIdentity = &none
	// If this fails, the Lease expires.
	_, _ = l.client.Update(limited, lease, metav1.UpdateOptions{})
	l.set(Lease{})
}
