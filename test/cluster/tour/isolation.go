package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-project/berth/internal/value/cpuset"
	"github.com/berth-project/berth/test/patience"
)

const (
	// policyName is the name of the ConfigMap that an administrator of ACK writes.
	policyName = "ack-slo-config"
	// replicas is the number of pods of each Deployment.
	replicas = 2
	// deployment is a Deployment of such pods, with another label in addition to the name.
	deployment = `apiVersion: apps/v1
kind: Deployment
metadata: {name: %[1]s}
spec:
  replicas: %[2]d
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s, koordinator.sh/qosClass: %[3]s}}
    spec:
      terminationGracePeriodSeconds: 1
      nodeSelector: {kubernetes.io/hostname: %[4]s}
      containers:
      - {name: app, image: "berth-mask:1", imagePullPolicy: IfNotPresent, resources: {requests: {cpu: 5m}}}
---
`
	// isolating gives offline work cores of its own, and lets it yield on a CPU.
	isolating = `apiVersion: v1
kind: ConfigMap
metadata: {name: ` + policyName + `, namespace: kube-system}
data:
  resource-threshold-config: '{"clusterStrategy": {"enable": true, "cpuSuppressThresholdPercent": 65}}'
  resource-qos-config: '{"clusterStrategy": {"beClass": {"cpuQOS": {"enable": true}}}}'
`
)

// sides shows an online and an offline Deployment, before an administrator separates them, meanwhile, and after it.
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
	both, err := manifest(dir, "both-sides.yaml",
		fmt.Sprintf(deployment, "online", replicas, "LS", node.Name)+fmt.Sprintf(deployment, "offline", replicas, "BE", node.Name))
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
	if err := t.table(ctx); err != nil {
		return err
	}
	t.say("\nThe ConfigMap of an administrator separates them:")
	defer t.unseparated() //nolint:contextcheck // it has its own
	if err := t.run(ctx, "apply", "-f", policy); err != nil {
		return err
	}
	if err := t.until(ctx, func(online, offline cpuset.Set) bool { return !online.Intersects(offline) }); err != nil {
		return err
	}
	if err := t.table(ctx); err != nil {
		return err
	}
	if err := t.isolated(ctx, node.Name); err != nil {
		return err
	}
	t.unseparated() //nolint:contextcheck // it has its own
	t.say("\nWithout the ConfigMap both have all CPUs again:")
	if err := t.until(ctx, func(online, offline cpuset.Set) bool { return online == offline }); err != nil {
		return err
	}
	return t.table(ctx)
}

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

// until waits until the CPUs of both Deployments' processes are as desired.
func (t *tour) until(ctx context.Context, desired func(online, offline cpuset.Set) bool) error {
	limited, _, cancel := patience.WithLimit(ctx, runLimit)
	defer cancel()
	return patience.Until(limited, settled/4, func() string {
		pods, err := t.mine(limited)
		if err != nil {
			return err.Error()
		}
		var online, offline cpuset.Set
		for i := range pods {
			cpus, err := cpuset.Parse(t.kernel(limited, &pods[i]).CPUs)
			if err != nil || cpus.IsEmpty() {
				return fmt.Sprintf("%s does not run: %v", pods[i].Name, err)
			}
			if strings.HasPrefix(pods[i].Name, "offline-") {
				offline = offline.Union(cpus)
			} else {
				online = online.Union(cpus)
			}
		}
		if !desired(online, offline) {
			return fmt.Sprintf("online pods run on %s, offline ones on %s", online, offline)
		}
		return ""
	})
}
