package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/proof/bench"
	"github.com/berth-project/berth/internal/proof/load"
	"github.com/berth-project/berth/test/cluster/local"
	"github.com/berth-project/berth/test/patience"
)

const (
	// server is the name of the pod and its container.
	server = "server"
	// request is the CPU request of every arm's server, so that all get the same share of a busy machine.
	request = "50m"
)

// serve creates the server of an arm and waits until it runs.
func (b *benchmark) serve(ctx context.Context, a bench.Arm) (*v1.Pod, error) {
	container := v1.Container{
		Name: server, Image: "berth-burn:1", ImagePullPolicy: v1.PullIfNotPresent,
		Resources: v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse(request)}},
	}
	policy := "none"
	if a.Name == bench.Berth {
		policy = bench.DefaultBurst().Policy
	}
	if !a.Unlimited() {
		milli := resource.NewMilliQuantity(int64(1000*float64(a.Limit)), resource.DecimalSI)
		container.Resources.Limits = v1.ResourceList{v1.ResourceCPU: *milli}
	}
	grace := int64(1)
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: server, Annotations: map[string]string{v1alpha1.AnnotationCPUBurst: fmt.Sprintf(`{"policy": %q}`, policy)}},
		Spec: v1.PodSpec{
			NodeSelector: map[string]string{v1.LabelHostname: local.NodeName}, RestartPolicy: v1.RestartPolicyNever,
			TerminationGracePeriodSeconds: &grace, Containers: []v1.Container{container},
		},
	}
	if a.Name == bench.Peer {
		b.peer.dress(&pod.ObjectMeta)
	}
	return b.start(ctx, pod)
}

// start creates a pod and waits until it runs or has completed.
func (t *tour) start(ctx context.Context, pod *v1.Pod) (*v1.Pod, error) {
	pods := t.client.CoreV1().Pods(namespace)
	if _, err := pods.Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		return nil, err
	}
	if runs, err := t.await(ctx, runLimit); err != nil || !runs {
		why := "-"
		if is, err := pods.Get(ctx, pod.Name, metav1.GetOptions{}); err == nil {
			why = reason(is)
		}
		return nil, errors.Join(fmt.Errorf("pod %s does not run after %s: %s", pod.Name, runLimit, why), err)
	}
	return pods.Get(ctx, pod.Name, metav1.GetOptions{})
}

// group returns the control group of the server's container, as the kubelet of this cluster creates it with the
// cgroupfs driver.
func group(pod *v1.Pod) (string, error) {
	if len(pod.Status.ContainerStatuses) != 1 {
		return "", fmt.Errorf("pod %s has %d containers", pod.Name, len(pod.Status.ContainerStatuses))
	}
	return path.Join(strings.TrimPrefix(local.Group, "/"), "kubepods", strings.ToLower(string(pod.Status.QOSClass)), "pod"+string(pod.UID), containerID(pod)), nil
}

// gone deletes pods and waits until the kubelet has removed them.
func (t *tour) gone(names ...string) error {
	ctx, progress, cancel := patience.WithLimit(context.Background(), runLimit)
	defer cancel()
	pods := t.client.CoreV1().Pods(namespace)
	for _, name := range names {
		if err := pods.Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	for _, name := range names {
		for {
			_, err := pods.Get(ctx, name, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				progress()
				break
			}
			if err := load.Pause(ctx, 200*time.Millisecond); err != nil {
				return fmt.Errorf("pod %s does not end: %w", name, err)
			}
		}
	}
	return nil
}

// writes returns the agent's own count of writes to files of the server's container, without those to the pod's group.
// It is 0 if the agent does not answer.
func writes(ctx context.Context) int {
	text, err := local.AgentMetrics(ctx)
	if err != nil {
		return 0
	}
	return writesOf(text)
}

// writesOf returns the count of the server in the agent's metrics.
func writesOf(text []byte) (sum int) {
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		labels, value, _ := strings.Cut(lines.Text(), "} ")
		of := strings.Contains(labels, fmt.Sprintf("namespace=%q,pod=%q,", namespace, server))
		if n, err := strconv.ParseFloat(value, 64); err == nil && of && strings.HasPrefix(labels, "berth_writes_total{") {
			sum += int(n)
		}
	}
	return sum
}
