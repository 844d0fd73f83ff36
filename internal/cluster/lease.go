package cluster

import (
	"context"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-project/berth/internal/apiclient"
)

// The Lease. The scheduler pins nothing on a node whose Lease was not renewed for
// 180 seconds: two renewals may fail. Each is a write of etcd, for each node of the cluster;
// what tells sooner that a node is gone is the kubelet's own Lease.
const (
	leaseSeconds = 150
	renewEvery   = apiclient.LeaseRenewed
	// lookEvery is how often it is read in between, which costs the API server no write: a
	// server that hangs is soon known, and an agent that took the Lease.
	lookEvery = apiclient.LeaseLooked
	// renewRetry is the distance after a failure, so that it is soon known whether
	// the API server is away.
	renewRetry = time.Second
	// renewLimit is how long a request may take.
	renewLimit = apiclient.LeaseAnswered
	// watchOther is how often an agent that is not the one of the node looks.
	watchOther = 5 * time.Second
)

// leaseClient is what the agent asks of the Leases of a namespace.
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
	// changed is called after each change of state.
	changed func()

	// lease is what was last seen of it, nil to look; seen is when its renewal
	// was first seen, by this host's clock.
	lease *coordinationv1.Lease
	seen  time.Time
	// renewedAt is when this agent renewed it last, by a clock that nobody sets: others
	// watch whether it goes on.
	renewedAt time.Time

	mu    sync.Mutex
	state Lease
}

// current returns who the agent of the node is.
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

// run holds the Lease until ctx ends, and then gives it back.
func (l *lessee) run(ctx context.Context) {
	for ctx.Err() == nil {
		if !apiclient.Pause(ctx, l.step(ctx)) {
			break
		}
	}
	l.release(context.WithoutCancel(ctx))
}

// step does what is due and returns when the next step is.
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
		l.lease = nil // Another writer changed or removed it: look.
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

// try renews the Lease, takes it, or finds that another agent has it.
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

// look reads the Lease, from the API server's cache, and has it looked at again where it is not this
// agent's any more.
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

// other returns the identity of another agent that holds a Lease and lives. Clocks
// of hosts differ: it lives as long as its renewals are seen to go on.
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

// renewed returns the Lease as this agent's, renewed now.
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

// release lets the next agent of the node start at once. It leaves the time of the
// renewal as it is, by which the scheduler sees that there is none.
func (l *lessee) release(ctx context.Context) {
	if l.lease == nil || !l.current().Held {
		return
	}
	limited, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	lease, none := l.lease.DeepCopy(), ""
	lease.Spec.HolderIdentity = &none
	// If it fails the Lease runs out by itself.
	_, _ = l.client.Update(limited, lease, metav1.UpdateOptions{})
	l.set(Lease{})
}
