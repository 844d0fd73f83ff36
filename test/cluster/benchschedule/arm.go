package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/deploy"
	"github.com/berth-project/berth/internal/proof/bench"
	"github.com/berth-project/berth/test/cluster/controlplane"
)

// The arms, by short names.
const (
	armOff      = bench.ScheduleOff
	armOrdinary = bench.ScheduleOrdinary
	armHiding   = bench.ScheduleHiding
	armLabelled = bench.ScheduleLabelled
	armPinned   = bench.SchedulePinned
)

// warmShare is the divisor for the number of pods that are bound before the clock starts: one pod in ten.
const warmShare = 10

// ErrSchedule reports that a run did not measure its scenario.
var ErrSchedule = errors.New("run failed")

// scheduleArm is one arm of one repetition.
type scheduleArm struct {
	name       string
	percentage int
	pods       int
}

func (a scheduleArm) berth() bool  { return a.name != armOff }
func (a scheduleArm) pinned() bool { return a.name == armPinned }

// config returns the scheduler's configuration. With Berth it is the shipped configuration of the mode "replace", for
// one replica and with the limits of this run. Without Berth it has the same profiles with default plugins only.
func (a scheduleArm) config(kubeconfig string) ([]byte, error) {
	manifest, err := deploy.Replace()
	if err != nil {
		return nil, fmt.Errorf("configuration of the scheduler: %w", err)
	}
	var shipped v1.ConfigMap
	if err := yaml.Unmarshal(manifest, &shipped); err != nil {
		return nil, fmt.Errorf("configuration of the scheduler: %w", err)
	}
	config := map[string]any{}
	if err := yaml.Unmarshal([]byte(shipped.Data["config.yaml"]), &config); err != nil {
		return nil, fmt.Errorf("configuration of the scheduler: %w", err)
	}
	config["leaderElection"] = map[string]any{"leaderElect": false}
	config["clientConnection"] = map[string]any{"kubeconfig": kubeconfig, "qps": scheduleQPS, "burst": scheduleQPS}
	config["percentageOfNodesToScore"] = a.percentage
	profiles, _ := config["profiles"].([]any)
	for _, p := range profiles {
		if profile, ok := p.(map[string]any); ok && !a.berth() {
			delete(profile, "plugins")
			delete(profile, "pluginConfig")
		}
	}
	text, err := yaml.Marshal(config)
	if err != nil {
		return nil, fmt.Errorf("configuration of the scheduler: %w", err)
	}
	return text, nil
}

// run measures one arm. Pods wait, then the scheduler starts, and the clock runs from the first tenth of bound pods to
// the last pod.
func (c *cluster) run(ctx context.Context, a scheduleArm) (run Run, err error) {
	if err := c.compact(ctx); err != nil {
		return run, err
	}
	defer func() { err = errors.Join(err, c.removePods(ctx)) }()
	if a.name == armHiding {
		if err := c.bindHiding(ctx, a); err != nil {
			return run, fmt.Errorf("hiding pod: %w", err)
		}
	}
	if err := c.putPods(ctx, a.pods, a.pod()); err != nil {
		return run, err
	}
	bound, err := c.watchBound(ctx, scheduleNamespace)
	if err != nil {
		return run, err
	}
	defer bound.stop()
	scheduler, err := c.start(a)
	if err != nil {
		return run, err
	}
	defer func() { err = errors.Join(err, scheduler.Kill()) }()
	if run, err = c.measure(ctx, a, bound, scheduler); err != nil {
		return run, err
	}
	want := 0
	if a.pinned() {
		want = a.pods
	}
	return run, c.checkPlaced(ctx, scheduleNamespace, want)
}

// pod returns the pods of an arm, without a name. They differ only in the keys that Berth reads.
func (a scheduleArm) pod() *v1.Pod {
	pod := podOf(podCPUs, podCPUs)
	switch a.name {
	case armPinned:
		pod.Annotations = map[string]string{v1alpha1.AnnotationCPUSetScheduler: v1alpha1.CPUSetSchedulerOn}
	case armLabelled:
		pod.Labels = map[string]string{v1alpha1.LabelQoSClass: string(v1alpha1.QoSLS)}
	}
	return pod
}

// hidingPod returns a pod with exclusive CPUs that requests fewer CPUs than it gets. It hides CPUs from a scheduler that
// only adds requests.
func hidingPod() *v1.Pod {
	pod := podOf(1, podCPUs)
	pod.Name = "go-demo"
	pod.Annotations = map[string]string{v1alpha1.AnnotationCPUSetScheduler: v1alpha1.CPUSetSchedulerOn}
	return pod
}

// bindHiding has the scheduler of an arm bind the pod that hides CPUs.
func (c *cluster) bindHiding(ctx context.Context, a scheduleArm) (err error) {
	if _, err := c.client.CoreV1().Pods(hidingNamespace).Create(ctx, hidingPod(), metav1.CreateOptions{}); err != nil {
		return err // The caller names the pod.
	}
	bound, err := c.watchBound(ctx, hidingNamespace)
	if err != nil {
		return err
	}
	defer bound.stop()
	scheduler, err := c.start(a)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, scheduler.Kill()) }()
	if err := bound.await(ctx, scheduler, 1); err != nil {
		return err
	}
	return c.checkPlaced(ctx, hidingNamespace, 1)
}

// start starts the scheduler of an arm.
func (c *cluster) start(a scheduleArm) (*controlplane.Child, error) {
	config, err := a.config(c.plane.Kubeconfig())
	if err != nil {
		return nil, err
	}
	file := filepath.Join(c.plane.Dir(), strings.ReplaceAll(a.name, " ", "-")+".yaml")
	if err := os.WriteFile(file, config, 0o600); err != nil {
		return nil, fmt.Errorf("configuration of the scheduler: %w", err)
	}
	child, err := controlplane.StartChild(c.plane.Dir(), fileScheduler, c.scheduler, "--config="+file, "--secure-port=0")
	if err != nil {
		return nil, fmt.Errorf("start the scheduler: %w", err)
	}
	return child, nil
}

// measure waits until all pods are bound.
func (c *cluster) measure(ctx context.Context, a scheduleArm, bound *boundWatch, scheduler *controlplane.Child) (Run, error) {
	run := Run{Percentage: a.percentage, Arm: a.name}
	warm := max(1, a.pods/warmShare)
	if err := bound.await(ctx, scheduler, warm); err != nil {
		return run, err
	}
	before, err := bench.ProcessCPU(scheduler.PID())
	if err != nil {
		return run, err
	}
	begin := time.Now()
	if err := bound.await(ctx, scheduler, a.pods-warm); err != nil {
		return run, err
	}
	elapsed := time.Since(begin)
	after, err := bench.ProcessCPU(scheduler.PID())
	if err != nil {
		return run, err
	}
	run.Pods, run.Seconds, run.CPUSeconds = a.pods-warm, elapsed.Seconds(), (after - before).Seconds()
	run.Reopened = bound.reopened
	run.PeakMiB, err = bench.PeakRSS(scheduler.PID())
	return run, err
}

// checkPlaced fails a run that did not measure its scenario: all pods of a namespace that asked for it must have
// placements, and other pods must have none.
func (c *cluster) checkPlaced(ctx context.Context, namespace string, want int) error {
	pods, err := c.metadata.Resource(v1.SchemeGroupVersion.WithResource("pods")).Namespace(namespace).
		List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list pods: %w", err)
	}
	placed := 0
	for _, p := range pods.Items {
		if p.Annotations[v1alpha1.AnnotationPlacement] != "" {
			placed++
		}
	}
	if placed != want {
		return fmt.Errorf("%w: %d of %d pods have a placement, want %d", ErrSchedule, placed, len(pods.Items), want)
	}
	return nil
}
