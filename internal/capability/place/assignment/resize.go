package assignment

import (
	"cmp"
	"slices"

	"github.com/berth-project/berth/internal/capability/place"
	"github.com/berth-project/berth/internal/intent/workload"
	"github.com/berth-project/berth/internal/node/cluster"
	"github.com/berth-project/berth/internal/node/inventory"
	"github.com/berth-project/berth/internal/node/nri"
)

// agreement is how an update from the runtime compares with the known pod: the kubelet knows a resize earlier than this
// agent, and reports its decision later.
type agreement uint8

const (
	// agreed is an update to the limit in force, to no limit, or of a pod that asks for no exclusive CPUs.
	agreed agreement = iota
	// held is an update to the limit of a resize that the kubelet deferred until now.
	held
	// late is an update to an unknown limit.
	late
)

// milli is one CPU in thousandths.
const milli = 1000

// defaultPeriod is the CFS period of the kubelet and the kernel, in microseconds.
const defaultPeriod = 100_000

// agreementWith compares the quota of an update with the limits of the container.
func agreementWith(p *workload.Pod, e nri.Event) agreement {
	i := slices.IndexFunc(p.Containers, func(c workload.Container) bool { return c.Name == e.Container.Name })
	if i < 0 || e.Requested.Quota <= 0 || !workload.MayPin(p.Labels, p.Annotations) {
		return agreed
	}
	c := &p.Containers[i]
	switch limit := e.Requested.Quota * milli / cmp.Or(e.Requested.Period, defaultPeriod); {
	case c.CPULimit == 0, limit == c.LimitInForce():
		return agreed
	case limit == c.CPULimit:
		return held
	}
	return late
}

// resize decides about new limits of a pod. final means that the runtime can wait no longer for late limits: the pod
// then retains its state until they are known and the kubelet has applied the resize.
func (a *Assignment) resize(p *cluster.Pod, e nri.Event, final bool) (place.Answer, error) {
	a.learn()
	switch agreementWith(&p.Pod, e) {
	case agreed:
	case held:
		a.node.Pods.Put(a.asked(p).CarriedOut())
	case late:
		if !final {
			return place.Answer{}, inventory.ErrUnknownPod
		}
		return place.Answer{}, nil
	}
	return a.node.Resize(e.Pod.UID)
}
