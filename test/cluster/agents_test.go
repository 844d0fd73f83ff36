package cluster

import (
	"context"
	"sync"
	"testing"
	"time"

	coordination "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// leaseNamespace is the namespace of the agents' Leases.
const leaseNamespace = "berth-system"

// agents imitates the agents of all nodes for the scheduler: it renews the nodes' Leases.
type agents struct {
	client kubernetes.Interface
	mu     sync.Mutex
	leases map[string]*coordination.Lease
	wait   sync.WaitGroup
}

// newAgents renews the Leases in every period until the test ends.
func newAgents(t *testing.T, client kubernetes.Interface, period time.Duration) *agents {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	a := &agents{client: client, leases: map[string]*coordination.Lease{}}
	a.wait.Go(func() {
		for ctx.Err() == nil {
			a.renewAll(ctx)
			sleep(ctx, period)
		}
	})
	t.Cleanup(func() {
		cancel()
		a.wait.Wait()
	})
	return a
}

// live creates the Lease of a node, renewed now.
func (a *agents) live(t *testing.T, node string) {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	now := metav1.NowMicro()
	lease := &coordination.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: node, Namespace: leaseNamespace},
		Spec:       coordination.LeaseSpec{HolderIdentity: &node, RenewTime: &now},
	}
	made, err := a.client.CoordinationV1().Leases(leaseNamespace).Create(t.Context(), lease, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	a.leases[node] = made
}

// silence stops renewing the Lease of a node.
func (a *agents) silence(node string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.leases, node)
}

func (a *agents) renewAll(ctx context.Context) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for node, lease := range a.leases {
		now := metav1.NowMicro()
		lease.Spec.RenewTime = &now
		// If the server is down, the next round tries again.
		if renewed, err := a.client.CoordinationV1().Leases(leaseNamespace).Update(ctx, lease, metav1.UpdateOptions{}); err == nil {
			a.leases[node] = renewed
		}
	}
}

// kubelets imitates the kubelets for deletion: a bound pod that is being deleted disappears when its node confirms.
type kubelets struct {
	client kubernetes.Interface
	ctx    context.Context
	wait   sync.WaitGroup
}

// newKubelets returns kubelets that stop with the test. Its method see is a hook of the journal.
func newKubelets(t *testing.T, client kubernetes.Interface) *kubelets {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	k := &kubelets{client: client, ctx: ctx}
	t.Cleanup(func() {
		cancel()
		k.wait.Wait()
	})
	return k
}

func (k *kubelets) see(pod *v1.Pod) {
	if pod.DeletionTimestamp == nil || pod.Spec.NodeName == "" || k.ctx.Err() != nil {
		return
	}
	k.wait.Go(func() {
		sleep(k.ctx, 100*time.Millisecond) // Containers take a moment to end.
		none := int64(0)
		options := metav1.DeleteOptions{GracePeriodSeconds: &none, Preconditions: metav1.NewUIDPreconditions(string(pod.UID))}
		for k.ctx.Err() == nil {
			err := k.client.CoreV1().Pods(pod.Namespace).Delete(k.ctx, pod.Name, options)
			if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
				return
			}
			sleep(k.ctx, 200*time.Millisecond)
		}
	})
}

// revive renews the Lease of a silent agent's node again.
func (a *agents) revive(ctx context.Context, t *testing.T, node string) {
	t.Helper()
	lease, err := a.client.CoordinationV1().Leases(leaseNamespace).Get(ctx, node, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.leases[node] = lease
}
