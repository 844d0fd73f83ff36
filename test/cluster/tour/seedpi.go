package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/proof/bench"
	"github.com/berth-project/berth/internal/proof/seeds"
	"github.com/berth-project/berth/internal/value/cpuset"
	"github.com/berth-project/berth/test/patience"
)

const piName = "cal-pi"

// piPods compute digits of Pi on exclusive CPUs, on those and idle ones, and on any CPUs.
type piPods struct{ *seedBench }

func (b *seedBench) openPi(ctx context.Context) (seeds.Opened, error) {
	if b.cpus < 2 {
		return nil, fmt.Errorf("%w a second CPU to borrow", bench.ErrMissing)
	}
	return piPods{b}, b.pinnable(ctx, b.node)
}

// Load implements seeds.Opened.
func (p piPods) Load() string {
	return fmt.Sprintf("%d digits of Pi on %d threads, again and again, in a pod with a limit of %d CPUs on a node of %d; a pod with exclusive CPUs has no quota, but with static-burst",
		seeds.PiDigits, seeds.PiThreads, p.limit, p.cpus)
}

// Close implements seeds.Opened.
func (p piPods) Close() error { return nil }

// computing returns the pod of an arm, with the annotations of the document.
func (p piPods) computing(a seeds.Arm) *v1.Pod {
	pod := p.pod(piName, piImage, whole(p.limit))
	limitTo(pod, float64(p.limit))
	pod.Spec.Containers[0].Env = []v1.EnvVar{
		{Name: "limit", Value: strconv.Itoa(seeds.PiDigits)},
		{Name: "threadNum", Value: strconv.Itoa(seeds.PiThreads)},
		{Name: "seconds", Value: fmt.Sprint(max(1, math.Round(a.Duration.Seconds())))},
	}
	if a.Name != seeds.Limited {
		pod.Annotations[v1alpha1.AnnotationCPUSetScheduler] = v1alpha1.CPUSetSchedulerOn
	}
	if a.Name == seeds.StaticBurst {
		pod.Annotations[v1alpha1.AnnotationCPUPolicy] = v1alpha1.CPUPolicyStaticBurst
	}
	return pod
}

// Run implements seeds.Opened.
func (p piPods) Run(ctx context.Context, a seeds.Arm) (v seeds.Values, err error) {
	defer func() { err = errors.Join(err, p.gone(piName)) }() //nolint:contextcheck // also after ctx ended
	if _, err := p.start(ctx, p.computing(a)); err != nil {
		return v, err
	}
	said, err := p.completed(ctx, piName)
	if err != nil {
		return v, err
	}
	computed, err := parsePi(said)
	if err != nil {
		return v, err
	}
	return seeds.Values{Of: map[string]float64{"time": computed.millis}, Raw: said}, still(a, p.missing(a.Name, computed.first))
}

// missing says what is wrong with the first CPUs of an arm, "" for nothing.
func (p piPods) missing(arm string, first cpuset.Set) string {
	want := p.limit
	if arm == seeds.Limited {
		want = p.cpus
	}
	if first.Size() == want || arm == seeds.StaticBurst && first.Size() > want {
		return ""
	}
	return fmt.Sprintf("its first CPUs were %s, want %d", first, want)
}

// completed waits until a pod has completed, and returns what it printed.
func (t *tour) completed(ctx context.Context, name string) (string, error) {
	pods := t.client.CoreV1().Pods(namespace)
	failed := false
	if err := patience.Until(ctx, lookEvery, func() string {
		pod, err := pods.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		failed = pod.Status.Phase == v1.PodFailed
		if failed || pod.Status.Phase == v1.PodSucceeded {
			return ""
		}
		return fmt.Sprintf("pod %s is %s", name, pod.Status.Phase)
	}); err != nil {
		return "", err
	}
	said, err := pods.GetLogs(name, &v1.PodLogOptions{}).DoRaw(ctx)
	if err == nil && failed {
		err = bench.ErrChild
	}
	if err != nil {
		return "", fmt.Errorf("pod %s: %w: %s", name, err, said)
	}
	return string(said), nil
}

// computedPi is what a pod says of its computations: their mean time, and its CPUs at the begin.
type computedPi struct {
	millis float64
	first  cpuset.Set
}

// parsePi reads the log of a pod.
func parsePi(said string) (computedPi, error) {
	cpus := regexp.MustCompile(`(?m)^Cpus_allowed_list:\s*(\S+)$`).FindStringSubmatch(said)
	took := regexp.MustCompile(`in (\d+) ms!`).FindStringSubmatch(said)
	if cpus == nil || took == nil {
		return computedPi{}, fmt.Errorf("%w: cal-pi printed %q", bench.ErrChild, said)
	}
	first, err := cpuset.Parse(cpus[1])
	if err != nil {
		return computedPi{}, fmt.Errorf("cal-pi: %w", err)
	}
	millis, err := strconv.Atoi(took[1])
	if err != nil {
		return computedPi{}, fmt.Errorf("cal-pi: %w", err)
	}
	return computedPi{float64(millis), first}, nil
}
