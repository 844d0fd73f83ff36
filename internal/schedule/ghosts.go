package schedule

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-project/berth/internal/placement"
)

// ghost is a binding that failed in a way which does not tell whether it
// failed. The scheduler forgets the pod; its CPUs stay held until the API server
// shows the pod bound or gone, or unbound when no request can be under way.
type ghost struct {
	uid             types.UID
	namespace, name string
	node            string
	held            placement.Held
	// request is what the pod adds to the node, in thousandths of a CPU.
	request int64
	// until is when an unbound pod stays unbound: later than any API server
	// works on a request.
	until time.Time
	// shares says that the pod has no CPUs of its own. There may be many of
	// those, so the API server is asked about them late, and mostly not at all.
	shares bool
	// pass is the last walk over the pods that met the pod.
	pass uint32
}

const (
	// requestTimeout is an API server's default for --request-timeout, and some
	// seconds for the way there.
	requestTimeout = 65 * time.Second
	// firstLook and lastLook bound the pause between two looks at a ghost.
	firstLook = 500 * time.Millisecond
	lastLook  = 10 * time.Second
	// lookTimeout bounds one look.
	lookTimeout = 10 * time.Second
	// lookers bounds the looks at the same time.
	lookers = 4
)

// haunt keeps the CPUs of a pod whose binding to a node may have gone through.
func (c *core) haunt(pod *v1.Pod, node string, handed *handedOver) {
	g := &ghost{
		uid: pod.UID, namespace: pod.Namespace, name: pod.Name, node: node, held: handed.held,
		request: handed.request, until: handed.began.Add(requestTimeout), shares: handed.shares,
	}
	n := c.lock(node)
	n.ghosts = append(n.ghosts, g)
	n.touch()
	n.mu.Unlock()
	c.flights.haunt(g.uid, g.node)
	c.meters.haunted()
	c.log.V(2).Info("Whether the failed binding went through is open: its CPUs stay held",
		"pod", pod.Namespace+"/"+pod.Name, "node", node)
	c.spawn(func(ctx context.Context) { c.follow(ctx, g) })
}

// follow looks at a ghost until it is laid.
func (c *core) follow(ctx context.Context, g *ghost) {
	pause := firstLook
	if g.shares {
		pause = max(pause, time.Until(g.until)+time.Second)
	}
	for sleep(ctx, pause) && c.flights.haunted(g.uid) { // else the informer saw the pod first
		if c.lookAt(ctx, g) {
			return
		}
		pause = min(2*pause, lastLook)
	}
}

// sleep returns false if ctx ended.
func sleep(ctx context.Context, pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// lookAt asks the API server about a ghost, and says whether that laid it.
func (c *core) lookAt(ctx context.Context, g *ghost) bool {
	c.looks <- struct{}{}
	defer func() { <-c.looks }()
	asked := time.Now()
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	pod, err := c.handle.ClientSet().CoreV1().Pods(g.namespace).Get(ctx, g.name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err), err == nil && pod.UID != g.uid:
		c.onGone(g.uid, g.namespace)
		return true
	case err != nil:
		return false
	case pod.Spec.NodeName != "":
		c.onPod(nil, pod)
		return !g.shares
	case pod.DeletionTimestamp != nil, asked.After(g.until):
		// An API server binds no pod that is being deleted.
		c.layGhosts(g.uid)
		if c.flights.at(g.uid) == "" {
			c.usage.set(g.namespace, g.uid, 0)
		}
		return true
	}
	return false
}

// layGhosts gives the CPUs of all ghosts of a pod free.
func (c *core) layGhosts(uid types.UID) {
	nodes := c.flights.lay(uid)
	for _, name := range nodes {
		n := c.node(name)
		if n == nil {
			continue
		}
		n.mu.Lock()
		n.layGhost(uid)
		n.mu.Unlock()
	}
	if len(nodes) > 0 {
		c.activate(refusedByCPUs | refusedByPromise | refusedByCap)
	}
}

// layGhost drops the ghosts of a pod on one node. The caller holds mu.
func (n *node) layGhost(uid types.UID) {
	kept := n.ghosts[:0]
	for _, g := range n.ghosts {
		if g.uid != uid {
			kept = append(kept, g)
		}
	}
	clear(n.ghosts[len(kept):])
	n.ghosts = kept
	n.touch()
}
