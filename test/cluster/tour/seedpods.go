package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/proof/bench"
	"github.com/berth-project/berth/internal/proof/load"
	"github.com/berth-project/berth/internal/proof/seeds"
	"github.com/berth-project/berth/internal/value/unit"
	"github.com/berth-project/berth/test/patience"
)

// The images of the documents, and a load generator. The registry of the cluster has all of them under any host.
const (
	apacheImage = "koordinatorsh/apache-2-4-51-for-slo-test:v0.1"
	nginxImage  = "nginx:latest"
	piImage     = "registry.cn-zhangjiakou.aliyuncs.com/xianlu/java-pi:latest"
	wrkImage    = "wrk:1"
)

// pod returns a pod of one container on the measured node, with a CPU request.
func (b *seedBench) pod(name, image, request string) *v1.Pod {
	grace := int64(1)
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}, Annotations: map[string]string{}},
		Spec: v1.PodSpec{
			NodeSelector: map[string]string{v1.LabelHostname: b.node}, RestartPolicy: v1.RestartPolicyNever,
			TerminationGracePeriodSeconds: &grace,
			Containers: []v1.Container{{
				Name: name, Image: image, ImagePullPolicy: v1.PullIfNotPresent,
				Resources: v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse(request)}},
			}},
		},
	}
}

// limitTo sets the CPU limit of a pod of one container.
func limitTo(pod *v1.Pod, cpus float64) {
	pod.Spec.Containers[0].Resources.Limits = v1.ResourceList{v1.ResourceCPU: *resource.NewMilliQuantity(int64(1000*cpus), resource.DecimalSI)}
}

// whole is a number of CPUs as a request.
func whole(cpus int) string { return strconv.Itoa(cpus) }

// forceLimit is how long the agent may take until an arm is in force, in time during which the machine gave it CPU. The
// agent averages the CPU use of the machine over ten seconds before it raises a quota.
const forceLimit = time.Minute

// inForce waits until look finds nothing missing: then the agent has done what the arm needs.
func inForce(ctx context.Context, look func() string) error {
	limited, _, cancel := patience.WithLimit(ctx, forceLimit)
	defer cancel()
	if err := patience.Until(limited, lookEvery, look); err != nil {
		return fmt.Errorf("not in force: %w", err)
	}
	return nil
}

// ready waits until a server answers and its arm is in force, and then lets the server rest.
func ready(ctx context.Context, address string, missing func() string) error {
	if err := answers(ctx, address); err != nil {
		return err
	}
	if err := inForce(ctx, missing); err != nil {
		return err
	}
	return load.Pause(ctx, quiet)
}

// still fails if an arm is no longer in force.
func still(a seeds.Arm, missing string) error {
	if missing != "" {
		return fmt.Errorf("%w: arm %s was in force before the load, and is not after it: %s", bench.ErrChild, a.Name, missing)
	}
	return nil
}

// quotaMissing says what is wrong with the quota of a container, "" for nothing: a limited one has its limit, a bursting
// one more, up to the ceiling of its policy.
func quotaMissing(arm string, limit unit.CPUs, is cgroup.Bandwidth) string {
	const near = 0.001
	has := granted(is.Limit(), is.Quota)
	switch {
	case arm == seeds.Unlimited && has != 0:
		return fmt.Sprintf("the quota is %.3f CPUs, want none", has)
	case arm == seeds.Burst && has <= float64(limit)+near:
		return fmt.Sprintf("the quota is %.3f CPUs, want more than the limit of %.3f: is the machine too busy for bursting?", has, limit)
	case arm != seeds.Unlimited && arm != seeds.Burst && (has < float64(limit)-near || has > float64(limit)+near):
		return fmt.Sprintf("the quota is %.3f CPUs, want the limit of %.3f", has, limit)
	}
	return ""
}
