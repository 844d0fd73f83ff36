package schedule

import (
	"sync/atomic"

	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// core is the state that the plugins of all profiles of one scheduler share. The lock of a node guards the records of
// its pods.
type core struct {
	background *background

	handle fwk.Handle
	meters *meters

	nodes    directory
	agents   agents
	machines machines
	answers  answers
	queue    queue
	tries    tries
	services corelisters.ServiceLister

	usage     usage
	invalid   reported
	shortages shortages
	selectors selectors
	repacks   repacks
	flights   flights
	hiding    hiding
	// looks holds a token for each check of an ambiguous bind that is under way.
	looks chan struct{}

	// listed reports for each handler of pods and nodes whether it saw the initial list. caughtUp reports that all did.
	listed   []cache.InformerSynced
	caughtUp atomic.Bool
}

func newCore(handle fwk.Handle, s settings, m *meters) *core {
	b := &background{log: klog.Background().WithName(Name)}
	c := &core{background: b, handle: handle, meters: m, looks: make(chan struct{}, lookers)}
	c.nodes.caps = &caps{usage: &c.usage}
	c.nodes.hiders = &c.hiding.nodes
	c.queue.handle, c.queue.log = handle, b.log
	c.agents.background, c.agents.handle, c.agents.settings = b, handle, s
	c.agents.nodes, c.agents.queue = &c.nodes, &c.queue
	c.machines.background, c.machines.handle = b, handle
	c.machines.nodes, c.machines.agents, c.machines.queue = &c.nodes, &c.agents, &c.queue
	c.services = handle.SharedInformerFactory().Core().V1().Services().Lister()
	c.selectors = newSelectors()
	c.answers.benches.New = func() any { return new(bench) }
	return c
}
