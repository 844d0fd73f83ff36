package schedule

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-project/berth/internal/kubepod"
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
)

// haunt keeps the CPUs of a pod whose binding may have gone through.
func (c *core) haunt(pod *v1.Pod, made *reservation, began time.Time) {
	g := &ghost{
		uid: pod.UID, namespace: pod.Namespace, name: pod.Name, node: made.node,
		held: made.held, request: kubepod.Scheduled(pod), until: began.Add(requestTimeout),
	}
	n := c.lock(made.node)
	n.ghosts = append(n.ghosts, g)
	n.touch()
	n.mu.Unlock()
	c.flights.haunt(g.uid, g.node)
	c.meters.haunted()
	c.log.Info("Binding failed in a way that leaves open whether it went through: its CPUs stay held",
		"pod", pod.Namespace+"/"+pod.Name, "node", made.node)
	c.spawn(func(ctx context.Context) { c.follow(ctx, g) })
}

// follow looks at a ghost until it is laid.
func (c *core) follow(ctx context.Context, g *ghost) {
	for pause := firstLook; ; pause = min(2*pause, lastLook) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		if !c.flights.haunted(g.uid) {
			return // the informer saw the pod first
		}
		if c.lookAt(ctx, g) {
			return
		}
	}
}

// lookAt asks the API server about a ghost, and says whether that laid it.
func (c *core) lookAt(ctx context.Context, g *ghost) bool {
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
		c.onBound(pod)
		return true
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
