package schedule

import (
	"context"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-project/berth/internal/capability/place/placement"
	"github.com/berth-project/berth/internal/node/apiclient"
)

// ambiguousBind is a binding whose call failed but may have gone through. The scheduler forgets the pod; its CPUs stay
// held until the API server shows the pod bound or gone, or unbound when no request can be under way.
type ambiguousBind struct {
	uid             types.UID
	namespace, name string
	node            string
	held            placement.Held
	// request is what the pod adds to the node.
	request requested
	// until is the time after which an unbound pod stays unbound, since no API server works on a request for so long.
	// The lock of flights guards it.
	until time.Time
	// shares reports whether the pod has no exclusive CPUs. Ordinary pods may be many, so the API server is asked about
	// them late, and mostly not at all.
	shares bool
	// pass is the number of the last walk over the pods that met this pod.
	pass uint32
}

const (
	// requestTimeout is an API server's default for --request-timeout, plus some seconds for transport.
	requestTimeout = 65 * time.Second
	// firstLook and lastLook bound the pause between two checks of an ambiguous bind.
	firstLook = 500 * time.Millisecond
	lastLook  = 10 * time.Second
	// lookTimeout bounds one check.
	lookTimeout = 10 * time.Second
	// lookers bounds the concurrent checks.
	lookers = 4
)

// holdAmbiguous holds the CPUs of a pod whose binding to a node may have gone through; held is nil without exclusive
// CPUs. The 65 seconds begin now, after the error: a request may have waited in the client for long before it was sent.
func (c *core) holdAmbiguous(pod *v1.Pod, node string, held *placement.Held) {
	switch shown := c.shown(pod); {
	case shown == nil:
	case shown.Spec.NodeName == "":
		if shown.DeletionTimestamp != nil {
			return // an API server binds no pod that is being deleted
		}
	case held != nil:
		// The pod is bound, and stays on its node with the placement that it shows. The scheduler forgets the pod now,
		// and its cache may show it only later.
		c.take(nil, shown, true)
		return
	case shown.Spec.NodeName != node:
		return // an earlier binding went through, and no pod is bound twice
	}
	b := &ambiguousBind{
		uid: pod.UID, namespace: pod.Namespace, name: pod.Name, node: node,
		request: requestedBy(pod), until: time.Now().Add(requestTimeout), shares: held == nil,
	}
	if held != nil {
		b.held = *held
	}
	n := c.nodes.lock(node)
	fresh := c.flights.addAmbiguous(b)
	if fresh {
		n.ambiguous = append(n.ambiguous, b)
		n.touch()
	}
	n.mu.Unlock()
	c.meters.ambiguousBind()
	if !fresh {
		return
	}
	c.background.log.V(2).Info("Whether the failed binding went through is open: its CPUs stay held",
		"pod", pod.Namespace+"/"+pod.Name, "node", node)
	c.background.spawn(func(ctx context.Context) { c.follow(ctx, b) })
}

// shownBound returns the pod as the informer shows it, nil unless it is bound.
func (c *core) shownBound(pod *v1.Pod) *v1.Pod {
	if shown := c.shown(pod); shown != nil && shown.Spec.NodeName != "" {
		return shown
	}
	return nil
}

// shown returns the pod as the informer shows it, nil if it does not.
func (c *core) shown(pod *v1.Pod) *v1.Pod {
	pods := c.handle.SharedInformerFactory().Core().V1().Pods().Lister()
	shown, err := pods.Pods(pod.Namespace).Get(pod.Name)
	if err != nil || shown.UID != pod.UID {
		return nil
	}
	return shown
}

// follow checks an ambiguous bind until its result is known.
func (c *core) follow(ctx context.Context, b *ambiguousBind) {
	for pause := firstLook; ; pause = min(2*pause, lastLook) {
		until, there := c.flights.ends(b)
		if !there {
			return // an event showed what became of the pod
		}
		wait := pause
		if b.shares {
			wait = max(wait, time.Until(until)+time.Second)
		}
		if !apiclient.Pause(ctx, wait) {
			return
		}
		if _, there = c.flights.ends(b); there {
			c.lookAt(ctx, b)
		}
	}
}

// lookAt asks the API server about an ambiguous bind, and ends it if the answer suffices.
func (c *core) lookAt(ctx context.Context, b *ambiguousBind) {
	c.lanes.looks <- struct{}{}
	defer func() { <-c.lanes.looks }()
	asked := time.Now()
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	pod, err := c.handle.ClientSet().CoreV1().Pods(b.namespace).Get(ctx, b.name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err), err == nil && pod.UID != b.uid:
		c.onGone(b.uid, b.namespace)
	case err != nil:
	case pod.Spec.NodeName != "":
		if shown := c.shownBound(pod); shown != nil {
			heed(c, nil, shown, false) // its event counts it, and maybe a later one already did
		} else {
			c.take(nil, pod, true)
		}
	case pod.DeletionTimestamp != nil:
		// An API server binds no pod that is being deleted.
		c.settled(b, c.flights.settle(b.uid))
	default:
		c.settled(b, c.flights.settleDue(b.uid, asked))
	}
}

// settled frees what the ended ambiguous binds of an unbound pod held.
func (c *core) settled(b *ambiguousBind, binds []*ambiguousBind) {
	if len(binds) == 0 {
		return
	}
	if !c.flights.isAmbiguous(b.uid) && c.flights.at(b.uid) == "" {
		c.uncount(b.namespace, b.uid)
	}
	c.free(binds)
}

// settleBinds frees the CPUs of all ambiguous binds of a pod.
func (c *core) settleBinds(uid types.UID) { c.free(c.flights.settle(uid)) }

// free removes ambiguous binds from their nodes.
func (c *core) free(binds []*ambiguousBind) {
	for _, b := range binds {
		n := c.nodes.find(b.node)
		if n == nil {
			continue
		}
		n.mu.Lock()
		n.ambiguous = slices.DeleteFunc(n.ambiguous, func(other *ambiguousBind) bool { return other == b })
		n.touch()
		n.mu.Unlock()
	}
	if len(binds) > 0 {
		c.queue.activate(refusedByCPUs | refusedByPromise | refusedByCap)
	}
}
