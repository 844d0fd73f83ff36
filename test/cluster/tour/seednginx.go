package main

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/proof/seeds"
	"github.com/berth-project/berth/internal/value/cpuset"
)

const (
	nginxName = "nginx"
	wrkName   = "wrk"
	// serveConfig serves with the configuration of the environment.
	serveConfig = `printf %s "$CONFIG" >/tmp/nginx.conf && exec nginx -c /tmp/nginx.conf`
	// spread is the wish for CPUs of different cores.
	spread = `{"preferredCPUBindPolicy": "SpreadByPCPUs"}`
)

// nginxPods are nginx in a pod, and its clients in a pod with CPUs of their own.
type nginxPods struct {
	*seedBench

	clients, workers int
}

func (b *seedBench) openNginx(ctx context.Context) (_ seeds.Opened, err error) {
	n := &nginxPods{seedBench: b}
	if n.clients, n.workers, err = seeds.NginxShare(b.cpus); err != nil {
		return nil, err
	}
	if err := b.pinnable(ctx, b.node); err != nil {
		return nil, err
	}
	pod := b.pod(wrkName, wrkImage, whole(n.clients))
	pod.Annotations[v1alpha1.AnnotationCPUSetScheduler] = v1alpha1.CPUSetSchedulerOn
	pod.Spec.Containers[0].Command = []string{"sleep", "1000000"}
	limitTo(pod, float64(n.clients))
	if _, err := b.start(ctx, pod); err != nil {
		return nil, errors.Join(err, n.Close()) //nolint:contextcheck // also after ctx ended
	}
	return n, nil
}

// Load implements seeds.Opened.
func (n *nginxPods) Load() string {
	return fmt.Sprintf("wrk -t %d -c 100 in a pod with %d CPUs of its own, nginx in a pod with a limit of %d CPUs on the other %d; a pod with exclusive CPUs has no quota; arm %s prefers SpreadByPCPUs",
		n.clients, n.clients, n.workers, n.cpus-n.clients, seeds.Scattered)
}

// Close implements seeds.Opened.
func (n *nginxPods) Close() error { return n.gone(wrkName) }

// server returns nginx with the annotations of an arm.
func (n *nginxPods) server(arm string) *v1.Pod {
	pod := n.pod(nginxName, nginxImage, whole(n.workers))
	limitTo(pod, float64(n.workers))
	pod.Spec.Containers[0].Command = []string{"sh", "-c", serveConfig}
	pod.Spec.Containers[0].Env = []v1.EnvVar{{Name: "CONFIG", Value: seeds.NginxConfig(n.workers, "/tmp", "80")}}
	switch arm {
	case seeds.Scattered:
		pod.Annotations[v1alpha1.AnnotationResourceSpec] = spread
		fallthrough
	case seeds.Pinned:
		pod.Annotations[v1alpha1.AnnotationCPUSetScheduler] = v1alpha1.CPUSetSchedulerOn
	}
	return pod
}

// Run implements seeds.Opened.
func (n *nginxPods) Run(ctx context.Context, a seeds.Arm) (v seeds.Values, err error) {
	defer func() { err = errors.Join(err, n.gone(nginxName)) }() //nolint:contextcheck // also after ctx ended
	pod, err := n.start(ctx, n.server(a.Name))
	if err != nil {
		return v, err
	}
	var has cpuset.Set
	missing := func() string {
		var err error
		if has, err = cpuset.Parse(n.kernel(ctx, pod).CPUs); err != nil {
			return err.Error()
		}
		return n.missing(a.Name, has)
	}
	if err := ready(ctx, pod.Status.PodIP+":80", missing); err != nil {
		return v, err
	}
	url := "http://" + pod.Status.PodIP + ":80/" // The image of wrk knows no names of services.
	command := append([]string{"exec", "-n", namespace, wrkName, "--"}, seeds.Wrk(n.clients, a, url)...)
	said, err := n.quiet(ctx, command...)
	if err != nil {
		return v, err
	}
	if v, err = seeds.ParseWrk(string(said)); err != nil {
		return v, err
	}
	v.Raw += fmt.Sprintf("nginx on CPUs %s\n", has)
	return v, still(a, missing())
}

// missing says what is wrong with the CPUs of an arm, "" for nothing.
func (n *nginxPods) missing(arm string, has cpuset.Set) string {
	want := n.cpus - n.clients
	if arm == seeds.Pinned || arm == seeds.Scattered {
		want = n.workers
	}
	if has.Size() != want {
		return fmt.Sprintf("it has CPUs %s, want %d", has, want)
	}
	return ""
}
