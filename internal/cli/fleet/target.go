package fleet

import (
	"cmp"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-project/berth/internal/value/table"
)

// target is the port of an agent's pod. lacks says why the pod is not ready, "" if it is.
type target struct{ pod, port, lacks string }

// String names the target for a user.
func (t target) String() string {
	text := "port " + t.port + " of pod " + namespace + "/" + t.pod
	if t.lacks != "" {
		text += ", which is not ready (" + t.lacks + ")"
	}
	return text
}

// forwardError is why a connection to a target did not open, or why it ended.
type forwardError struct {
	to  target
	err error
}

// Error implements error.
func (e *forwardError) Error() string {
	return "port-forward to " + e.to.String() + ": " + e.err.Error()
}

// Unwrap returns the answer of the API server or of the node.
func (e *forwardError) Unwrap() error { return e.err }

// noAgent returns ErrNoAgent for a node, with what keeps each of its agents' pods.
func noAgent(node string, pods []v1.Pod) error {
	if len(pods) == 0 {
		return fmt.Errorf("%w: node %s has no pod with the label %s in %s (a pod that is not scheduled yet is on no node): allowed: a node that kubectl berth status shows with an agent", ErrNoAgent, node, agents, namespace)
	}
	said := make([]string, 0, len(pods))
	for i := range pods {
		said = append(said, fmt.Sprintf("pod %s/%s on node %s: %s", namespace, pods[i].Name, node, cmp.Or(lacks(&pods[i]), "ready")))
	}
	return fmt.Errorf("%w: %s", ErrNoAgent, strings.Join(said, "; "))
}

// lacks returns why a pod is not ready, "" if it is: its end, what its containers wait for, or a condition.
func lacks(pod *v1.Pod) string {
	if pod.DeletionTimestamp != nil {
		return "it is being deleted"
	}
	var said []string
	if phase := pod.Status.Phase; phase != v1.PodRunning {
		said = append(said, joined(string(phase), pod.Status.Reason, pod.Status.Message))
	}
	for i := range pod.Status.ContainerStatuses {
		switch c := &pod.Status.ContainerStatuses[i]; {
		case c.State.Waiting != nil:
			said = append(said, joined("container "+c.Name+" waits", c.State.Waiting.Reason, c.State.Waiting.Message))
		case c.State.Terminated != nil:
			said = append(said, joined(fmt.Sprintf("container %s ended with exit code %d", c.Name, c.State.Terminated.ExitCode), c.State.Terminated.Reason, c.State.Terminated.Message))
		}
	}
	for i := range pod.Status.Conditions {
		c := &pod.Status.Conditions[i]
		if c.Status == v1.ConditionFalse && c.Type == v1.PodReady {
			said = append(said, joined(string(c.Type)+" is False", c.Reason, c.Message))
		}
	}
	return strings.Join(said, ", ")
}

// joined joins the parts of a reason, without those that are empty.
func joined(parts ...string) string {
	var all []string
	for _, part := range parts {
		if part = oneLine(part); part != "" {
			all = append(all, part)
		}
	}
	return strings.Join(all, ": ")
}

// oneLine returns a text of a node in one line that is safe on a terminal.
func oneLine(text string) string { return table.Clean(strings.Join(strings.Fields(text), " ")) }
