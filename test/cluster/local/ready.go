package local

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/berth-project/berth/test/patience"
)

// waitReady waits for the node, kube-proxy, the scheduler and, if installed, the agent.
func (s *supervisor) waitReady(ctx context.Context, agent bool) error {
	client, err := kubernetes.NewForConfig(s.plane.Config())
	if err != nil {
		return err
	}
	type step struct {
		name string
		look func(context.Context, kubernetes.Interface) string
	}
	steps := []step{
		{"node " + NodeName + " is ready", lookNode},
		{"services work", lookServices},
		{"the scheduler is ready", lookScheduler},
	}
	if agent {
		steps = append(steps, step{"the agent is ready", lookAgent})
	}
	for _, step := range steps {
		if err := until(ctx, func(ctx context.Context) string { return step.look(ctx, client) }); err != nil {
			return err
		}
		s.say("%s", step.name)
	}
	if !agent {
		s.say("no agent, as %s wants it", withoutAgent)
	}
	return nil
}

// until calls look until it returns an empty string. The error contains its last result.
func until(ctx context.Context, look func(context.Context) string) error {
	if err := patience.Until(ctx, lookEvery, func() string { return look(ctx) }); err != nil {
		return fmt.Errorf("%w: %w", ErrFailed, err)
	}
	return nil
}

// waitImages waits for the registry.
func waitImages(ctx context.Context) error {
	return until(ctx, func(ctx context.Context) string { return get(ctx, "http://"+Registry+"/v2/") })
}

// get returns an empty string if a server answers that all is well.
func get(ctx context.Context, url string) string {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err.Error()
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err.Error()
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return url + " answers " + answer.Status
	}
	return ""
}

func lookNode(ctx context.Context, client kubernetes.Interface) string {
	node, err := client.CoreV1().Nodes().Get(ctx, NodeName, metav1.GetOptions{})
	if err != nil {
		return err.Error()
	}
	if len(node.Spec.Taints) > 0 {
		return fmt.Sprintf("node %s has taints: %v", NodeName, node.Spec.Taints)
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == v1.NodeReady && condition.Status == v1.ConditionTrue {
			return ""
		}
		if condition.Type == v1.NodeReady {
			return "node " + NodeName + " is not ready: " + condition.Message
		}
	}
	return "node " + NodeName + " says nothing about itself"
}

// lookServices checks kube-proxy and the service account of pods in the default namespace.
func lookServices(ctx context.Context, client kubernetes.Interface) string {
	if _, err := client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{}); err != nil {
		return err.Error()
	}
	return get(ctx, "http://"+Address+":10256/healthz")
}

// lookScheduler checks the Lease of the only active scheduler.
func lookScheduler(ctx context.Context, client kubernetes.Interface) string {
	lease, err := client.CoordinationV1().Leases(metav1.NamespaceSystem).Get(ctx, "kube-scheduler", metav1.GetOptions{})
	if err != nil {
		return err.Error()
	}
	if lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" {
		return "no scheduler leads"
	}
	return ""
}

// lookAgent checks the pods of all DaemonSets of the namespace.
func lookAgent(ctx context.Context, client kubernetes.Interface) string {
	sets, err := client.AppsV1().DaemonSets(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err.Error()
	}
	for _, set := range sets.Items {
		status := set.Status
		if status.ObservedGeneration < set.Generation || status.DesiredNumberScheduled == 0 || status.NumberReady < status.DesiredNumberScheduled {
			return fmt.Sprintf("DaemonSet %s has %d of %d pods ready", set.Name, status.NumberReady, status.DesiredNumberScheduled)
		}
	}
	return ""
}

// Pinnable returns the status, reason and message of a node's condition Pinnable, or nothing if there is none yet.
// Waiting loops use it, because kubectl would cost more CPU than the programs that they wait for.
func Pinnable(ctx context.Context, client kubernetes.Interface, node string) (string, error) {
	text, err := client.Discovery().RESTClient().Get().AbsPath("/apis/berth.dev/v1alpha1/nodetopologies", node).DoRaw(ctx)
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("NodeTopology %s: %w", node, err)
	}
	var object struct {
		Status struct{ Conditions []metav1.Condition }
	}
	if err := json.Unmarshal(text, &object); err != nil {
		return "", fmt.Errorf("NodeTopology %s: %w", node, err)
	}
	for _, c := range object.Status.Conditions {
		if c.Type == "Pinnable" {
			return fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message), nil
		}
	}
	return "", nil
}
