package schedule

import (
	"context"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-project/berth/internal/intent/kubepod"
)

// SignPod adds nothing for pods that share their CPUs: only their request matters, and the signature already has it.
// For pinned pods it adds all that a node's answer depends on.
//
// Reusing the previous pod's order of nodes is correct for pinned pods. The framework does so only when that pod filled
// its node, so that no other node changed. It asks Filter about the next node before it chooses it. The CPUs are chosen
// in Reserve, never remembered from one pod for another.
func (p *Plugin) SignPod(_ context.Context, pod *v1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	if !kubepod.MayPin(pod) {
		return nil, nil
	}
	pin, problems := pinningOf(pod)
	if len(problems) > 0 || !pin.Wanted {
		return nil, nil
	}
	if p.core.flights.isAmbiguous(pod.UID) {
		return nil, fwk.NewStatus(fwk.Unschedulable, "a binding of the pod may have gone through")
	}
	ask := p.askOf(pin)
	return []fwk.SignFragment{{Key: "berth.dev/Ask()", Value: ask.Shape}}, nil
}
