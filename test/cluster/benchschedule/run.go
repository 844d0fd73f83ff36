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

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/proof/bench"
	"github.com/berth-project/berth/test/cluster/controlplane"
)

// run measures one arm, or two at the same time. All pods wait, then the schedulers start in the order of the arms. The
// clock runs from the moment when each arm has a tenth of its pods bound until the first arm has all.
func (c *cluster) run(ctx context.Context, arms ...scheduleArm) (runs []Run, err error) {
	if err := c.compact(ctx); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.removePods(ctx)) }()
	if err := c.preparePods(ctx, arms); err != nil {
		return nil, err
	}
	bound, err := c.watchBound(ctx)
	if err != nil {
		return nil, err
	}
	defer bound.stop()
	schedulers, err := c.start(arms)
	defer func() { err = errors.Join(err, schedulers.kill()) }()
	if err != nil {
		return nil, err
	}
	if runs, err = measure(ctx, arms, bound, schedulers); err != nil {
		return nil, err
	}
	for _, a := range arms {
		want := 0
		if a.pinned() {
			want = a.pods
		}
		err = errors.Join(err, c.checkPlaced(ctx, a.namespace(), want))
	}
	return runs, err
}

// preparePods has the hiding pod bound, then creates the pending pods of all arms.
func (c *cluster) preparePods(ctx context.Context, arms []scheduleArm) error {
	for _, a := range arms {
		if a.name != armHiding {
			continue
		}
		if err := c.bindHiding(ctx, a); err != nil {
			return fmt.Errorf("hiding pod: %w", err)
		}
	}
	for _, a := range arms {
		if err := c.putPods(ctx, a); err != nil {
			return err
		}
	}
	return nil
}

// bindHiding has the scheduler of an arm bind the pod that hides CPUs.
func (c *cluster) bindHiding(ctx context.Context, a scheduleArm) (err error) {
	if _, err := c.client.CoreV1().Pods(hidingNamespace).Create(ctx, a.hidingPod(), metav1.CreateOptions{}); err != nil {
		return err // The caller names the pod.
	}
	bound, err := c.watchBound(ctx)
	if err != nil {
		return err
	}
	defer bound.stop()
	schedulers, err := c.start([]scheduleArm{a})
	defer func() { err = errors.Join(err, schedulers.kill()) }()
	if err != nil {
		return err
	}
	if err := bound.await(ctx, schedulers, func() bool { return bound.pods[hidingNamespace] == 1 }); err != nil {
		return err
	}
	return c.checkPlaced(ctx, hidingNamespace, 1)
}

// schedulers are the schedulers of arms, in the order of the arms.
type schedulers []*controlplane.Child

// start starts the schedulers of arms. With an error it returns those that run.
func (c *cluster) start(arms []scheduleArm) (started schedulers, err error) {
	files := make([]string, len(arms))
	for i, a := range arms {
		config, err := a.config(c.plane.Kubeconfig())
		if err != nil {
			return nil, err
		}
		files[i] = filepath.Join(c.plane.Dir(), strings.ReplaceAll(a.name, " ", "-")+a.side+".yaml")
		if err := os.WriteFile(files[i], config, 0o600); err != nil {
			return nil, fmt.Errorf("configuration of the scheduler: %w", err)
		}
	}
	for i, a := range arms {
		child, err := controlplane.StartChild(c.plane.Dir(), fileScheduler+a.side, c.scheduler, "--config="+files[i], "--secure-port=0")
		if err != nil {
			return started, fmt.Errorf("start the scheduler: %w", err)
		}
		started = append(started, child)
	}
	return started, nil
}

// alive returns nil while all schedulers run.
func (s schedulers) alive() (err error) {
	for _, child := range s {
		err = errors.Join(err, child.Alive())
	}
	return err
}

// logs lists the schedulers' logs.
func (s schedulers) logs() string {
	var files []string
	for _, child := range s {
		files = append(files, child.Log())
	}
	return strings.Join(files, ", ")
}

func (s schedulers) kill() (err error) {
	for _, child := range s {
		err = errors.Join(err, child.Kill())
	}
	return err
}

// measure waits until each arm has a tenth of its pods bound, and then until one has all. It returns what all arms did
// in between.
func measure(ctx context.Context, arms []scheduleArm, bound *boundWatch, running schedulers) ([]Run, error) {
	if err := bound.await(ctx, running, func() bool { return bound.warm(arms) }); err != nil {
		return nil, err
	}
	if bound.done(arms) {
		return nil, fmt.Errorf("%w: one scheduler had bound all its pods before the other had bound a tenth: %v", ErrSchedule, bound.pods)
	}
	before, err := sampleAll(arms, bound, running)
	if err != nil {
		return nil, err
	}
	begin := time.Now()
	if err := bound.await(ctx, running, func() bool { return bound.done(arms) }); err != nil {
		return nil, err
	}
	elapsed := time.Since(begin)
	after, err := sampleAll(arms, bound, running)
	if err != nil {
		return nil, err
	}
	runs := make([]Run, len(arms))
	for i, a := range arms {
		runs[i] = Run{
			Percentage: a.percentage, Arm: a.name, Pods: after[i].pods - before[i].pods,
			Seconds: elapsed.Seconds(), CPUSeconds: (after[i].cpu - before[i].cpu).Seconds(),
		}
		if runs[i].PeakMiB, err = bench.PeakRSS(running[i].PID()); err != nil {
			return nil, err
		}
	}
	runs[0].Reopened = bound.reopened // Once, as all arms have the same watch.
	if len(arms) == 2 {
		runs[0].Beside, runs[1].Beside = arms[1].name, arms[0].name
	}
	return runs, nil
}

// sample is the number of pods of an arm that are bound, and the CPU time of its scheduler.
type sample struct {
	pods int
	cpu  time.Duration
}

func sampleAll(arms []scheduleArm, bound *boundWatch, running schedulers) ([]sample, error) {
	samples := make([]sample, len(arms))
	for i, a := range arms {
		cpu, err := bench.ProcessCPU(running[i].PID())
		if err != nil {
			return nil, err
		}
		samples[i] = sample{bound.pods[a.namespace()], cpu}
	}
	return samples, nil
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
