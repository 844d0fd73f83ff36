package schedule

import (
	"sync/atomic"
	"time"

	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-project/berth/api/v1alpha1"
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

	usage usage
	// invalid has what was reported of the keys of pods.
	invalid   notes[string]
	shortages shortages
	// selectors has the compiled selectors of devices.
	selectors *cel.Cache
	repacks   repacks
	flights   flights
	hiding    hiding
	lanes     lanes

	// listed reports for each handler of pods and nodes whether it saw the initial list. caughtUp reports that all did.
	listed   []cache.InformerSynced
	caughtUp atomic.Bool
}

func newCore(handle fwk.Handle, a v1alpha1.SchedulerArgs, m *meters) *core {
	b := &background{log: klog.Background().WithName(Name)}
	c := &core{background: b, handle: handle, meters: m, lanes: newLanes()}
	c.nodes.usage = &c.usage
	c.nodes.hiders = &c.hiding
	c.queue.handle, c.queue.log = handle, b.log
	c.agents.background, c.agents.handle = b, handle
	c.agents.namespace, c.agents.staleAfter = a.LeaseNamespace, time.Duration(*a.StaleAfterSeconds)*time.Second
	c.agents.nodes, c.agents.queue = &c.nodes, &c.queue
	c.machines.background, c.machines.handle = b, handle
	c.machines.nodes, c.machines.agents, c.machines.queue = &c.nodes, &c.agents, &c.queue
	c.services = handle.SharedInformerFactory().Core().V1().Services().Lister()
	c.selectors = cel.NewCache(mostSelectors, cel.Features{})
	c.answers.benches.New = func() any { return new(bench) }
	return c
}
