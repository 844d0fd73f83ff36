package relocation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability/place/placement"
	"github.com/berth-project/berth/internal/node/apiclient"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// asked identifies the pod of a move; a later pod of its name has another UID.
type asked struct {
	namespace, name string
	uid             types.UID
	// version is the pod's version for which the move was written, if the answer was an error: while the pod has this
	// version, the move may still be stored. It is "" if there was no such answer.
	version string
}

// look reads the pod. The error is ErrRefused if the pod is gone.
func (c *cluster) look(ctx context.Context, p asked) (*v1.Pod, error) {
	pod, err := c.core.Pods(p.namespace).Get(ctx, p.name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && p.uid != "" && pod.UID != p.uid {
		return nil, fmt.Errorf("%w: pod %s/%s is gone", ErrRefused, p.namespace, p.name)
	}
	if err != nil {
		return nil, fmt.Errorf("pod %s/%s: %w", p.namespace, p.name, err)
	}
	return pod, nil
}

// ask writes the move into the pod, if the pod is still as the plan says. A move that was written although the answer
// says otherwise is found at the next read.
func (c *cluster) ask(ctx context.Context, s *Step) (asked, error) {
	var p asked
	p.namespace, p.name, _ = strings.Cut(s.Pod, "/")
	for sent := false; ; sent = true {
		pod, err := c.look(ctx, p)
		if err != nil {
			return p, unsure(err, s, sent && !errors.Is(err, ErrRefused))
		}
		p.uid = pod.UID
		if sent && (stands(pod, s) || cpusOf(pod) == s.To) {
			s.State = Asked
			return p, nil
		}
		if why := c.differs(pod, s); why != "" {
			s.State, s.Text = Refused, why
			return p, fmt.Errorf("%w: %s", ErrRefused, why)
		}
		if err = c.patch(ctx, pod, func(m *v1alpha1.Move) { *m = moveOf(s) }); err != nil {
			p.version = pod.ResourceVersion
		}
		if !apierrors.IsConflict(err) || !apiclient.Pause(ctx, lookEvery) { // else the pod changed since
			return p, written(err, s)
		}
	}
}

// moveOf returns the request for the move of a step.
func moveOf(s *Step) v1alpha1.Move {
	return v1alpha1.Move{V: v1alpha1.MoveVersion, From: s.From.String(), To: s.To.String()}
}

// written records the result of a write.
func written(err error, s *Step) error {
	if err == nil {
		s.State = Asked
		return nil
	}
	return unsure(err, s, !denied(err))
}

// unsure records that a move may be requested, if may is true.
func unsure(err error, s *Step, may bool) error {
	if !may {
		return err
	}
	s.State, s.Text = Asked, "it is not known whether it was asked for; the agent may carry it out"
	return fmt.Errorf("%w: it is not known whether it was asked for: %w", ErrUnfinished, err)
}

// denied reports whether the API server did not write the move. After any other error it may have written it: its store
// can be late, the answer can be lost, and a conflict can be with the same write, which the client repeated.
func denied(err error) bool {
	switch apierrors.ReasonForError(err) { //nolint:exhaustive // the others say nothing of it
	case metav1.StatusReasonForbidden, metav1.StatusReasonUnauthorized, metav1.StatusReasonInvalid, metav1.StatusReasonBadRequest,
		metav1.StatusReasonNotFound, metav1.StatusReasonTooManyRequests:
		return true
	}
	return false
}

// stands reports whether the pod has this move, without an answer.
func stands(pod *v1.Pod, s *Step) bool {
	move, _ := v1alpha1.DecodeMove(pod.Annotations[v1alpha1.AnnotationMove])
	return isOf(move, s) && move.Refused == ""
}

// isOf reports whether a move is the move of a step.
func isOf(move v1alpha1.Move, s *Step) bool {
	return move.From == s.From.String() && move.To == s.To.String()
}

// differs returns why the pod is not as the plan says, or "".
func (c *cluster) differs(pod *v1.Pod, s *Step) string {
	move, _ := v1alpha1.DecodeMove(pod.Annotations[v1alpha1.AnnotationMove])
	switch has := cpusOf(pod); {
	case pod.Spec.NodeName != c.options.Node:
		return fmt.Sprintf("the pod is on node %q, not on %s", pod.Spec.NodeName, c.options.Node)
	case has != s.From:
		return fmt.Sprintf("the pod has CPUs %s, not %s", has, s.From)
	case move.V != 0 && move.Refused == "":
		return "another move of it is asked for, to CPUs " + move.To
	}
	return ""
}

// patch changes the move of the pod, if the pod has not changed since it was read.
func (c *cluster) patch(ctx context.Context, pod *v1.Pod, change func(*v1alpha1.Move)) error {
	move, _ := v1alpha1.DecodeMove(pod.Annotations[v1alpha1.AnnotationMove])
	before := move
	if change(&move); move == before {
		return nil
	}
	text := move.Encode()
	return c.annotate(ctx, pod, &text)
}

// forget removes an answer that was read. If that fails, the next move replaces it.
func (c *cluster) forget(ctx context.Context, pod *v1.Pod) { _ = c.annotate(ctx, pod, nil) }

// annotate writes the annotation with the pod's status, which needs no right to change the pod itself.
func (c *cluster) annotate(ctx context.Context, pod *v1.Pod, text *string) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": pod.UID, "resourceVersion": pod.ResourceVersion,
		"annotations": map[string]any{v1alpha1.AnnotationMove: text},
	}})
	if err != nil {
		return err //nolint:wrapcheck // Strings can always be written.
	}
	if _, err := c.core.Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
		return fmt.Errorf("annotate pod %s/%s with %s: %w", pod.Namespace, pod.Name, v1alpha1.AnnotationMove, err)
	}
	return nil
}

// cpusOf returns the CPUs of all containers of the pod from its placement, or none without a valid one.
func cpusOf(pod *v1.Pod) cpuset.Set {
	var all cpuset.Set
	for _, c := range placement.Believed(pod.Annotations[v1alpha1.AnnotationPlacement]).Containers {
		all = all.Union(placement.PartOf(c).CPUs)
	}
	return all
}
