package schedule

import (
	"errors"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"github.com/berth-project/berth/internal/capability/place/placement"
)

// listed is the API server's answer to a list of Leases.
type listed func() (*coordinationv1.LeaseList, error)

// listLeases answers with c.leases if it is set. It is installed once, because a client accepts no reactor while in
// use.
func (c *cluster) listLeases(clienttesting.Action) (bool, runtime.Object, error) {
	answer := c.leases.Load()
	if answer == nil {
		return false, nil, nil
	}
	list, err := (*answer)()
	if err != nil { // do not return a typed nil list
		return true, nil, err
	}
	return true, list, nil
}

// away makes the API server fail every list of Leases until back is called.
func (c *cluster) away() (back func()) {
	answer := listed(func() (*coordinationv1.LeaseList, error) { return nil, errors.New("EOF") })
	c.leases.Store(&answer)
	return func() { c.leases.Store(nil) }
}

// activations returns the number of activations since the last call.
func (h *fakeHandle) activations() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	many := len(h.activated)
	h.activated = nil
	return many
}

// While the API server is away, no agent can renew its Lease, and no node becomes stale. Afterwards no node was closed
// and no waiting pod is retried.
func TestAPIServerAwayClosesNoNode(t *testing.T) {
	inCluster(t, `{}`, func(t *testing.T, c *cluster) {
		names := []string{"n1", "n2", "n3"}
		for _, name := range names {
			c.node(name)
		}
		c.bareNode("unknown") // the pod waits for this node
		c.refused(c.pod("waits", 40), "")
		for range 4 {
			time.Sleep(time.Minute)
			for _, name := range names {
				c.beat(name)
			}
		}
		c.handle.activations()
		back := c.away()
		time.Sleep(10 * time.Minute)
		c.placed(c.pod("a", 4))
		back()
		for _, name := range names {
			time.Sleep(5 * time.Second) // the agents return one by one
			c.beat(name)
		}
		c.settle()
		if calls := c.handle.activations(); calls != 0 {
			t.Errorf("waiting pods were activated %d times", calls)
		}
		c.placed(c.pod("b", 4))
		// When the API server answers again, a silent agent becomes stale as usual.
		for range 4 {
			time.Sleep(time.Minute)
			c.beat("n1")
		}
		for _, name := range names[1:] {
			if status, _ := c.closed(name); status != placement.TextStale {
				t.Errorf("node %s, whose agent is silent: %q", name, status)
			}
		}
		if status, _ := c.closed("n1"); status != "" {
			t.Errorf("node n1: %q", status)
		}
	})
}

func (c *cluster) closed(name string) (string, refusal) {
	n := c.plugin.core.nodes.lock(name)
	defer n.mu.Unlock()
	status, reason := n.closed()
	return status.Message(), reason
}

// All agents fall silent while the API server answers, so every node closes. When the agents return together, the
// waiting pods are retried once.
func TestNodesReopenTogether(t *testing.T) {
	inCluster(t, `{}`, func(t *testing.T, c *cluster) {
		names := []string{"n1", "n2", "n3", "n4", "n5"}
		for _, name := range names {
			c.node(name)
		}
		time.Sleep(4 * time.Minute)
		pod := c.pod("a", 4)
		c.refused(pod, placement.TextStale)
		c.handle.activations()
		for _, name := range names {
			c.beat(name)
		}
		c.settle()
		if calls := c.handle.activations(); calls != 1 {
			t.Errorf("the waiting pod was activated %d times", calls)
		}
		c.placed(pod)
	})
}

// A hanging watch does not mean that the agents are silent: the plugin lists the Leases before it closes a node.
func TestLeaseWatchHangs(t *testing.T) {
	inCluster(t, `{}`, func(t *testing.T, c *cluster) {
		c.node("n1")
		hung := must(c.client.CoordinationV1().Leases("berth-system").Get(c.ctx, "n1", metav1.GetOptions{}))(t)
		answer := listed(func() (*coordinationv1.LeaseList, error) {
			now := metav1.NewMicroTime(time.Now())
			renewed := *hung
			renewed.Spec.RenewTime = &now
			return &coordinationv1.LeaseList{Items: []coordinationv1.Lease{renewed}}, nil
		})
		c.leases.Store(&answer)
		time.Sleep(5 * time.Minute)
		c.placed(c.pod("a", 4))
	})
}
