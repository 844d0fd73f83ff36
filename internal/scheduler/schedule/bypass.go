package schedule

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-project/berth/api/v1alpha1"
)

const textBypassed = "bound without its CPUs by another binder: the profile must name Berth first in plugins.bind.enabled, not only in multiPoint"

// PostBind reports pods that another binder bound. In a profile that names Berth only in multiPoint, DefaultBinder runs
// first, and nothing else would report it.
func (p *Plugin) PostBind(ctx context.Context, state fwk.CycleState, pod *v1.Pod, nodeName string) {
	cy := cycleOf(state)
	if cy == nil || cy.ask == nil {
		return
	}
	if made := reservationOf(state); made != nil && made.sent {
		return
	}
	p.core.meters.bypass()
	klog.FromContext(ctx).Error(nil, "Pod was "+textBypassed, "pod", klog.KObj(pod), "node", nodeName)
	p.handle.EventRecorder().Eventf(pod, nil, v1.EventTypeWarning, v1alpha1.EventCPUPinFailed, "Binding", "%s", textBypassed)
}
