package schedule

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability/place/placement"
)

// Refusals in the binding cycle.
const (
	textRace    = "node(s) had the CPUs or their memory given to another pod meanwhile"
	textRebuilt = "node(s) had a changed set of CPUs meanwhile"
)

// Bind binds a pinned pod and passes its placement in the same call, so that no kubelet sees the pod without it. On
// nodes whose CPUs are known Bind also binds pods that share their CPUs, since only the sender of a binding learns
// whether it may have gone through. On all nodes it binds ordinary pods that bring a placement. The next binder binds
// all other pods.
//
// A pinned pod waits for its turn before it is checked, so that the check is recent when the binding is sent. Other pods
// do not wait, so that pinned pods whose bindings hang stop no others.
func (p *Plugin) Bind(ctx context.Context, state fwk.CycleState, pod *v1.Pod, nodeName string) *fwk.Status {
	cy := cycleOf(state)
	if cy == nil {
		return fwk.NewStatus(fwk.Skip)
	}
	if cy.ask == nil {
		if cy.request > 0 && p.core.nodes.knows(nodeName) || bringsPlacement(pod) {
			return p.bindOrdinary(ctx, pod, nodeName, cy.request)
		}
		return fwk.NewStatus(fwk.Skip)
	}
	leave, err := p.core.lanes.enter(ctx)
	if err != nil {
		return fwk.AsStatus(fmt.Errorf("bind pod %s/%s: %w", pod.Namespace, pod.Name, err))
	}
	defer leave()
	made, status := p.reserved(state, cy, pod, nodeName)
	if made == nil {
		return status
	}
	binding := bindingOf(pod, nodeName)
	binding.Annotations = map[string]string{v1alpha1.AnnotationPlacement: made.annotation}
	status = p.send(ctx, pod, binding, &made.held)
	if status == nil {
		made.sent = true
		p.core.meters.bound()
	}
	return status
}

// bindOrdinary binds a pod that shares its CPUs, if the accounting rule still admits it. It empties a placement that the
// pod brings, since CPUs would be held for it once the pod is bound. It changes nothing else.
func (p *Plugin) bindOrdinary(ctx context.Context, pod *v1.Pod, nodeName string, request int64) *fwk.Status {
	if !p.core.machines.claim(pod, nodeName, request) {
		p.core.meters.lost()
		return fwk.NewStatus(fwk.Unschedulable, textRace)
	}
	binding := bindingOf(pod, nodeName)
	if bringsPlacement(pod) {
		binding.Annotations = map[string]string{v1alpha1.AnnotationPlacement: ""}
	}
	status := p.send(ctx, pod, binding, nil)
	if status != nil {
		p.core.nodes.sums.unclaim(pod, nodeName)
	}
	return status
}

// bringsPlacement reports whether a pod has a placement. The placement of an unbound pod comes from its author.
func bringsPlacement(pod *v1.Pod) bool { return pod.Annotations[v1alpha1.AnnotationPlacement] != "" }

func bindingOf(pod *v1.Pod, nodeName string) *v1.Binding {
	return &v1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		Target:     v1.ObjectReference{Kind: "Node", Name: nodeName},
	}
}

// send sends a binding. A failed binding that may have gone through becomes an ambiguous bind. held is nil for a pod
// without exclusive CPUs.
func (p *Plugin) send(ctx context.Context, pod *v1.Pod, binding *v1.Binding, held *placement.Held) *fwk.Status {
	err := p.bind(ctx, binding)
	if err == nil {
		return nil
	}
	node := binding.Target.Name
	if ambiguous(err) {
		p.core.holdAmbiguous(pod, node, held)
	}
	return fwk.AsStatus(fmt.Errorf("bind pod %s/%s to node %s: %w", pod.Namespace, pod.Name, node, err))
}

// reserved returns what Reserve reserved for the pod, after a check against the pods that are bound by now. Without a
// reservation, the status is what a binder should return.
func (p *Plugin) reserved(state fwk.CycleState, cy *cycle, pod *v1.Pod, nodeName string) (*reservation, *fwk.Status) {
	made := reservationOf(state)
	if made == nil || made.node != nodeName {
		return nil, fwk.AsStatus(fmt.Errorf("bind pod %s/%s: %w", pod.Namespace, pod.Name, errNotReserved))
	}
	if text := p.core.outdated(pod.UID, made, cy.request); text != "" {
		p.core.meters.lost()
		return nil, fwk.NewStatus(fwk.Unschedulable, text)
	}
	return made, nil
}

// bind sends the binding in the same way as the scheduler.
func (p *Plugin) bind(ctx context.Context, binding *v1.Binding) error {
	if calls := p.handle.APICacher(); calls != nil {
		finished, err := calls.BindPod(binding)
		if err != nil {
			return fmt.Errorf("queue the binding: %w", err)
		}
		if err := calls.WaitOnFinish(ctx, finished); err != nil {
			return fmt.Errorf("queued binding: %w", err)
		}
		return nil
	}
	err := p.handle.ClientSet().CoreV1().Pods(binding.Namespace).Bind(ctx, binding, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("send the binding: %w", err)
	}
	return nil
}

// outdated returns why a reservation of a pod with this request must not be carried out any more, "" if it may: another
// scheduler bound pods in the meantime, pods were resized, or the topology changed.
func (c *core) outdated(uid types.UID, made *reservation, request int64) string {
	n := c.nodes.find(made.node)
	if n == nil {
		return textRebuilt
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.access.known() || n.machine != made.machine {
		return textRebuilt
	}
	o := n.beside(uid, &made.held, (*record).holds)
	if !o.Sound(n.machine) || o.Overbound(n.machine, &made.held) || !c.machines.admits(n, uid, &made.held, request, &o) {
		return textRace
	}
	return ""
}

// ambiguous reports whether a binding that returned err may have gone through, now or later. So may one with a
// conflict: the API server also reports a timeout of its store as a conflict.
func ambiguous(err error) bool {
	switch {
	case apierrors.IsNotFound(err), apierrors.IsInvalid(err), apierrors.IsForbidden(err),
		apierrors.IsUnauthorized(err), apierrors.IsBadRequest(err), apierrors.IsTooManyRequests(err),
		apierrors.IsMethodNotSupported(err), apierrors.IsRequestEntityTooLargeError(err):
		return false
	case utilnet.IsConnectionRefused(err):
		return false
	}
	return true
}
