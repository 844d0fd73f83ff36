package schedule

import (
	"context"
	"encoding/json"
	"fmt"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/placement"
)

// Texts of refusals in the binding cycle.
const (
	textRace    = "node(s) had the CPUs given to another pod meanwhile"
	textRebuilt = "node(s) had a changed set of CPUs meanwhile"
)

// handedOverKey is where it says that another plugin is asked to bind the pod.
const handedOverKey fwk.StateKey = Name + "/handed over"

// handedOver is a binding of which this plugin will not see the end, unless it
// fails: then Unreserve is called.
type handedOver struct {
	held placement.Held
	// shares says that the pod has no exclusive CPUs.
	shares bool
}

// Clone returns the value itself, which never changes.
func (h *handedOver) Clone() fwk.StateData { return h }

// Bind binds a pinned pod and hands over its placement in the same call, so
// that no kubelet sees the pod without it. On nodes whose CPUs are known it
// binds also pods that share theirs, as any binder would, since only the one who
// sends a binding learns whether it may have gone through; and on all nodes those
// that bring a placement. All others are left to the next binder, and so are all
// where placements are patched.
func (p *Plugin) Bind(ctx context.Context, state fwk.CycleState, pod *v1.Pod, nodeName string) *fwk.Status {
	if cy := cycleOf(state); cy != nil && cy.ask == nil &&
		(cy.request > 0 && p.core.nodes.knows(nodeName) || bringsPlacement(pod) && !p.rules.patch) {
		return p.bindOrdinary(ctx, state, pod, nodeName)
	}
	made, status := p.reserved(state, pod, nodeName)
	if made == nil {
		return status
	}
	if p.rules.patch {
		return fwk.NewStatus(fwk.Skip)
	}
	binding := bindingOf(pod, nodeName)
	binding.Annotations = map[string]string{v1alpha1.AnnotationPlacement: made.annotation}
	status = p.send(ctx, pod, binding, &handedOver{held: made.held})
	if status == nil {
		state.Write(sentKey, sent{})
		p.core.meters.bound()
	}
	return status
}

// bindOrdinary binds a pod that shares its CPUs. A placement that the pod brings it
// empties, since CPUs would be held for it from when it is bound; it changes nothing
// else.
func (p *Plugin) bindOrdinary(ctx context.Context, state fwk.CycleState, pod *v1.Pod, nodeName string) *fwk.Status {
	handed := &handedOver{shares: true}
	if p.rules.patch {
		state.Write(handedOverKey, handed)
		return fwk.NewStatus(fwk.Skip)
	}
	binding := bindingOf(pod, nodeName)
	if bringsPlacement(pod) {
		binding.Annotations = map[string]string{v1alpha1.AnnotationPlacement: ""}
	}
	return p.send(ctx, pod, binding, handed)
}

// bringsPlacement says whether a pod has a placement. One that is not bound has it
// from its author, or from a binding by patch that failed.
func bringsPlacement(pod *v1.Pod) bool { return pod.Annotations[v1alpha1.AnnotationPlacement] != "" }

func bindingOf(pod *v1.Pod, nodeName string) *v1.Binding {
	return &v1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		Target:     v1.ObjectReference{Kind: "Node", Name: nodeName},
	}
}

// send sends a binding; one that may have gone through although it failed
// is an ambiguous bind.
func (p *Plugin) send(ctx context.Context, pod *v1.Pod, binding *v1.Binding, handed *handedOver) *fwk.Status {
	err := p.bind(ctx, binding)
	if err == nil {
		return nil
	}
	node := binding.Target.Name
	if ambiguous(err) {
		p.core.holdAmbiguous(pod, node, handed)
	}
	return fwk.AsStatus(fmt.Errorf("bind pod %s/%s to node %s: %w", pod.Namespace, pod.Name, node, err))
}

// reserved returns what Reserve made for the pod, checked against the pods that
// are bound by now. Without one, the status is what a binder should return.
func (p *Plugin) reserved(state fwk.CycleState, pod *v1.Pod, nodeName string) (*reservation, *fwk.Status) {
	cy := cycleOf(state)
	if cy == nil || cy.ask == nil {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	data, err := state.Read(reservationKey)
	made, ok := data.(*reservation)
	if err != nil || !ok || made.node != nodeName {
		return nil, fwk.AsStatus(fmt.Errorf("bind pod %s/%s: %w", pod.Namespace, pod.Name, errNotReserved))
	}
	if text := p.core.outdated(pod.UID, made); text != "" {
		p.core.meters.lost()
		return nil, fwk.NewStatus(fwk.Unschedulable, text)
	}
	return made, nil
}

// bind sends the binding the way the scheduler sends its others.
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

// outdated returns why a reservation must not be carried out any more, "" where
// it may: pods that another scheduler bound since, or another topology.
func (c *core) outdated(uid types.UID, made *reservation) string {
	n := c.nodes.find(made.node)
	if n == nil {
		return textRebuilt
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.machine != made.machine {
		return textRebuilt
	}
	if n.overlaps(uid, &made.held) {
		return textRace
	}
	return ""
}

// ambiguous says whether a binding that returned err may have gone through, now
// or later. A conflict is no exception: the API server reports as one also what
// its store did not answer in time.
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

// PreBindPreFlight announces the patch, where placements are patched.
func (p *Plugin) PreBindPreFlight(_ context.Context, state fwk.CycleState, pod *v1.Pod, _ string) (*fwk.PreBindPreFlightResult, *fwk.Status) {
	cy := cycleOf(state)
	if !p.rules.patch || cy == nil || cy.ask == nil && !bringsPlacement(pod) {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	return &fwk.PreBindPreFlightResult{AllowParallel: true}, nil
}

// PreBind writes the placement into the pod, for clusters where another program
// must do the binding, and empties one that an ordinary pod brings. Until then it means nothing: placements count on bound
// pods only. Once it is there, whether the pod was bound is for the API server
// to say, so Unreserve leaves an ambiguous bind.
func (p *Plugin) PreBind(ctx context.Context, state fwk.CycleState, pod *v1.Pod, nodeName string) *fwk.Status {
	if !p.rules.patch {
		return nil
	}
	made, status := p.reserved(state, pod, nodeName)
	placed := ""
	switch {
	case made != nil:
		placed = made.annotation
	case !status.IsSkip():
		return status
	case !bringsPlacement(pod):
		return nil
	}
	if err := p.patch(ctx, pod, placed); err != nil {
		return fwk.AsStatus(fmt.Errorf("patch pod %s/%s: %w", pod.Namespace, pod.Name, err))
	}
	if made == nil {
		return nil
	}
	state.Write(handedOverKey, &handedOver{held: made.held})
	return nil
}

// patch writes a placement into a pod that is not bound, and into no other: an
// earlier binding may have gone through, and the agent acted on what it said.
func (p *Plugin) patch(ctx context.Context, pod *v1.Pod, placed string) error {
	pods := p.handle.ClientSet().CoreV1().Pods(pod.Namespace)
	now, err := pods.Get(ctx, pod.Name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("read it: %w", err)
	}
	if now.UID != pod.UID || now.Spec.NodeName != "" {
		return errBound
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid":             now.UID,
		"resourceVersion": now.ResourceVersion,
		"annotations":     map[string]string{v1alpha1.AnnotationPlacement: placed},
	}})
	if err != nil {
		return fmt.Errorf("write the patch: %w", err)
	}
	if _, err := pods.Patch(ctx, pod.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("send the patch: %w", err)
	}
	return nil
}
