package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/value/cpuset"
	"github.com/berth-project/berth/test/patience"
)

const (
	// policyName is the name of the ConfigMap that an administrator of ACK writes.
	policyName = "ack-slo-config"
	// replicas is the number of pods of each Deployment.
	replicas = 2
	// deployment is a Deployment of such pods, with another label in addition to the name, and with annotations.
	deployment = `apiVersion: apps/v1
kind: Deployment
metadata: {name: %[1]s}
spec:
  replicas: %[2]d
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s, koordinator.sh/qosClass: %[3]s}, annotations: {%[5]s}}
    spec:
      terminationGracePeriodSeconds: 1
      nodeSelector: {kubernetes.io/hostname: %[4]s}
      containers:
      - {name: app, image: "berth-mask:1", imagePullPolicy: IfNotPresent, resources: {requests: {cpu: 5m}}}
---
`
	// optedOut is the Deployment of an offline pod that does not yield on a CPU, because of its own annotation.
	optedOut  = "opted-out"
	optingOut = `{"enable": false}`
	// isolating gives offline work cores of its own, and lets it yield on a CPU.
	isolating = `apiVersion: v1
kind: ConfigMap
metadata: {name: ` + policyName + `, namespace: kube-system}
data:
  resource-threshold-config: '{"clusterStrategy": {"enable": true, "cpuSuppressThresholdPercent": 65}}'
  resource-qos-config: '{"clusterStrategy": {"beClass": {"cpuQOS": {"enable": true}}}}'
`
)

// bothSides returns the manifest of an online Deployment and two offline ones on a node.
func bothSides(node string) string {
	return fmt.Sprintf(deployment, "online", replicas, "LS", node, "") +
		fmt.Sprintf(deployment, "offline", replicas, "BE", node, "") +
		fmt.Sprintf(deployment, optedOut, 1, "BE", node, v1alpha1.AnnotationCPUQOS+": '"+optingOut+"'")
}

// isOffline reports whether a pod of these Deployments is offline.
func isOffline(p *v1.Pod) bool { return p.Labels[v1alpha1.LabelQoSClass] == "BE" }

// wantIdle returns cpu.idle of a pod's group while an administrator separates the sides, or does not.
func wantIdle(p *v1.Pod, separate bool) string {
	if separate && isOffline(p) && p.Labels["app"] != optedOut {
		return "1"
	}
	return "0"
}

// sides shows an online and an offline Deployment, before an administrator separates them, meanwhile, and after it. One
// offline pod does not yield on a CPU.
func (t *tour) sides(ctx context.Context) error {
	t.title("An online and an offline Deployment, on cores of their own")
	node, err := t.smallest(ctx)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "berth-tour-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	defer t.leave() //nolint:contextcheck // before the manifests go
	both, err := manifest(dir, "both-sides.yaml", bothSides(node.Name))
	if err != nil {
		return err
	}
	policy, err := manifest(dir, "ack-slo-config.yaml", isolating)
	if err != nil {
		return err
	}
	if err := t.apply(ctx, both); err != nil {
		return err
	}
	if runs, err := t.await(ctx, runLimit); err != nil || !runs {
		return fmt.Errorf("online and offline: not running after %s: %w", runLimit, err)
	}
	if err := t.table(ctx, idle()); err != nil {
		return err
	}
	t.say("\nThe ConfigMap of an administrator separates them:")
	defer t.unseparated() //nolint:contextcheck // it has its own
	if err := t.run(ctx, "apply", "-f", policy); err != nil {
		return err
	}
	if err := t.until(ctx, true); err != nil {
		return err
	}
	if err := t.table(ctx, idle()); err != nil {
		return err
	}
	t.say("\nA pod whose group has cpu.idle 1 yields: it runs when no other work wants the CPU. %s does not, because of its annotation.", optedOut)
	if err := t.isolated(ctx, node.Name); err != nil {
		return err
	}
	t.unseparated() //nolint:contextcheck // it has its own
	t.say("\nWithout the ConfigMap all have all CPUs again, and none yields:")
	if err := t.until(ctx, false); err != nil {
		return err
	}
	return t.table(ctx, idle())
}

// idle is the column of the precedence on a CPU.
func idle() column { return column{"CPU.IDLE", func(has seen) string { return dash(has.Idle) }} }

// isolated shows what the node publishes, once it does.
func (t *tour) isolated(ctx context.Context, node string) error {
	const path = `jsonpath=Isolated: {.status.conditions[?(@.type=="Isolated")].status}, offline CPUs {.status.pools.offline}{"\n"}`
	limited, _, cancel := patience.WithLimit(ctx, runLimit)
	defer cancel()
	err := patience.Until(limited, settled/4, func() string {
		said, err := t.quiet(limited, "get", "nodetopology", node, "-o", path)
		if err != nil || !strings.HasPrefix(string(said), "Isolated: True") {
			return fmt.Sprintf("%s %v", said, err)
		}
		return ""
	})
	if err != nil {
		return err
	}
	t.say("\nWhat the node publishes:")
	return t.run(ctx, "get", "nodetopology", node, "-o", path)
}

// unseparated removes the ConfigMap.
func (t *tour) unseparated() {
	ctx, _, cancel := patience.WithLimit(context.Background(), runLimit)
	defer cancel()
	err := t.client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Delete(ctx, policyName, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		fmt.Fprintln(os.Stderr, "tour:", err)
	}
}

// until waits until both sides have separate CPUs, or the same CPUs, and the pods yield on a CPU as they should. A kernel
// before Linux 5.15 has no such file.
func (t *tour) until(ctx context.Context, separate bool) error {
	limited, _, cancel := patience.WithLimit(ctx, runLimit)
	defer cancel()
	return patience.Until(limited, settled/4, func() string {
		pods, err := t.mine(limited)
		if err != nil {
			return err.Error()
		}
		var online, offline cpuset.Set
		for i := range pods {
			p := &pods[i]
			has := t.kernel(limited, p)
			cpus, err := cpuset.Parse(has.CPUs)
			if err != nil || cpus.IsEmpty() {
				return fmt.Sprintf("%s does not run: %v", p.Name, err)
			}
			if want := wantIdle(p, separate); has.Idle != "" && has.Idle != want {
				return fmt.Sprintf("%s has cpu.idle %s, want %s", p.Name, has.Idle, want)
			}
			if isOffline(p) {
				offline = offline.Union(cpus)
			} else {
				online = online.Union(cpus)
			}
		}
		if separate && online.Intersects(offline) || !separate && online != offline {
			return fmt.Sprintf("online pods run on %s, offline ones on %s", online, offline)
		}
		return ""
	})
}
