package schedule

import (
	"context"
	"sync"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-project/berth/internal/alloc"
	"github.com/berth-project/berth/internal/placement"
)

// core is what the plugins of one scheduler share.
type core struct {
	// ctx ends what the core started.
	ctx      context.Context
	handle   fwk.Handle
	log      klog.Logger
	settings settings
	meters   *meters
	machines interner
	waiting  waiting
	usage    usage
	invalid  reported
	flights  flights
	fits     fits
	hiding   hiding
	places   places
	// looks holds a token for each look at an ambiguous bind that is under way.
	looks chan struct{}
	// benches are *bench: what a decision needs and drops afterwards.
	benches sync.Pool

	// listed says of each handler of pods and nodes whether it saw what was listed at the
	// start, and caughtUp that all did.
	listed   []cache.InformerSynced
	caughtUp atomic.Bool

	nodes directory
	// leases says whether the Leases were listed; without that nothing is known
	// about any agent.
	leases atomic.Bool
	clock  leaseClock
	// opening says that the pods which wait for a node to open are about to be tried.
	opening atomic.Bool
}

// bench is room for one decision at a time.
type bench struct {
	scratch   alloc.Scratch
	occupancy placement.Occupancy
}

func newCore(handle fwk.Handle, s settings, m *meters) *core {
	c := &core{
		handle:   handle,
		log:      klog.Background().WithName(Name),
		settings: s,
		meters:   m,
		looks:    make(chan struct{}, lookers),
		benches:  sync.Pool{New: func() any { return new(bench) }},
	}
	c.nodes.caps = &caps{usage: &c.usage}
	c.nodes.hiders = &c.hiding.nodes
	return c
}

// node returns what is known about a node, nil for nothing.
func (c *core) node(name string) *node { return c.nodes.find(name) }

// lock returns a node with its lock held, and begins to know it. The caller
// must unlock it.
func (c *core) lock(name string) *node {
	for {
		n := c.nodes.findOrAdd(name)
		n.mu.Lock()
		if !n.gone {
			return n
		}
		n.mu.Unlock() // forgotten since it was found: the next one is another
	}
}

// forget drops a node of which nothing is known any more.
func (c *core) forget(n *node) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.machine == nil && n.access.empty() && len(n.records) == 0 && len(n.ambiguous) == 0 {
		c.nodes.remove(n)
		n.gone = true
		n.weigh()
	}
}

// activate makes the scheduling queue try the waiting pods again that were
// refused for one of the reasons.
func (c *core) activate(reasons refusal) {
	c.try(c.waiting.take(reasons))
}

// try makes the scheduling queue try pods again.
func (c *core) try(pods map[string]*v1.Pod) {
	if len(pods) == 0 {
		return
	}
	c.log.V(4).Info("Trying pods again", "pods", len(pods))
	c.handle.Activate(c.log, pods)
}

// activateOne does so for one pod.
func (c *core) activateOne(pod *v1.Pod) {
	c.handle.Activate(c.log, map[string]*v1.Pod{pod.Namespace + "/" + pod.Name: pod})
}
