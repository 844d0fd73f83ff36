package schedule

import (
	"context"
	"slices"
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
	// request is what the pod adds to the node.
	request requested
	// until is when an unbound pod stays unbound: later than any API server
	// works on a request. The lock of flights guards it.
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
// Its time begins now, after the error: a request may have waited in the client
// for long before it was sent.
func (c *core) haunt(pod *v1.Pod, node string, handed *handedOver) {
	if shown := c.shownBound(pod); shown != nil && !handed.shares {
		c.onPod(nil, shown) // where it is now it stays, and what it has that says
		return
	}
	g := &ghost{
		uid: pod.UID, namespace: pod.Namespace, name: pod.Name, node: node, held: handed.held,
		request: requestedBy(pod), until: time.Now().Add(requestTimeout), shares: handed.shares,
	}
	n := c.lock(node)
	fresh := c.flights.haunt(g)
	if fresh {
		n.ghosts = append(n.ghosts, g)
		n.touch()
	}
	n.mu.Unlock()
	c.meters.haunted()
	if !fresh {
		return
	}
	c.log.V(2).Info("Whether the failed binding went through is open: its CPUs stay held",
		"pod", pod.Namespace+"/"+pod.Name, "node", node)
	c.spawn(func(ctx context.Context) { c.follow(ctx, g) })
}

// shownBound returns a pod as the informer shows it, nil unless it is bound.
func (c *core) shownBound(pod *v1.Pod) *v1.Pod {
	pods := c.handle.SharedInformerFactory().Core().V1().Pods().Lister()
	shown, err := pods.Pods(pod.Namespace).Get(pod.Name)
	if err != nil || shown.UID != pod.UID || shown.Spec.NodeName == "" {
		return nil
	}
	return shown
}

// follow looks at a ghost until it is laid.
func (c *core) follow(ctx context.Context, g *ghost) {
	for pause := firstLook; ; pause = min(2*pause, lastLook) {
		until, there := c.flights.ends(g)
		if !there {
			return // somebody saw what became of the pod
		}
		wait := pause
		if g.shares {
			wait = max(wait, time.Until(until)+time.Second)
		}
		if !sleep(ctx, wait) {
			return
		}
		if _, there = c.flights.ends(g); there {
			c.lookAt(ctx, g)
		}
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

// lookAt asks the API server about a ghost, and lays it if that says enough.
func (c *core) lookAt(ctx context.Context, g *ghost) {
	c.looks <- struct{}{}
	defer func() { <-c.looks }()
	asked := time.Now()
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	pod, err := c.handle.ClientSet().CoreV1().Pods(g.namespace).Get(ctx, g.name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err), err == nil && pod.UID != g.uid:
		c.onGone(g.uid, g.namespace)
	case err != nil:
	case pod.Spec.NodeName != "":
		c.take(nil, pod, c.shownBound(pod) == nil)
	case pod.DeletionTimestamp != nil:
		// An API server binds no pod that is being deleted.
		c.laid(g, c.flights.lay(g.uid))
	default:
		c.laid(g, c.flights.layDue(g.uid, asked))
	}
}

// laid gives free what ghosts of a pod held that is not bound.
func (c *core) laid(g *ghost, ghosts []*ghost) {
	if len(ghosts) == 0 {
		return
	}
	if !c.flights.haunted(g.uid) && c.flights.at(g.uid) == "" {
		c.uncount(g.namespace, g.uid)
	}
	c.free(ghosts)
}

// layGhosts gives the CPUs of all ghosts of a pod free.
func (c *core) layGhosts(uid types.UID) { c.free(c.flights.lay(uid)) }

// free takes ghosts off their nodes.
func (c *core) free(ghosts []*ghost) {
	for _, g := range ghosts {
		n := c.node(g.node)
		if n == nil {
			continue
		}
		n.mu.Lock()
		n.ghosts = slices.DeleteFunc(n.ghosts, func(other *ghost) bool { return other == g })
		n.touch()
		n.mu.Unlock()
	}
	if len(ghosts) > 0 {
		c.activate(refusedByCPUs | refusedByPromise | refusedByCap)
	}
}
