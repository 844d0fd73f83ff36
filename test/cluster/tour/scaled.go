package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
)

// The same pods with limits for a small node.
const (
	pinned = `apiVersion: v1
kind: Pod
metadata:
  name: cal-pi
  annotations: {cpuset-scheduler: 'true'}
spec:
  restartPolicy: Never
  nodeSelector: {kubernetes.io/hostname: %[1]s}
  containers:
  - image: registry.cn-zhangjiakou.aliyuncs.com/xianlu/java-pi
    name: cal-pi
    resources:
      requests: {cpu: 1}
      limits: {cpu: 1}
    env:
    - {name: limit, value: "20000"}
    - {name: threadNum, value: "3000"}
---
apiVersion: v1
kind: Pod
metadata: {name: neighbour}
spec:
  restartPolicy: Never
  nodeSelector: {kubernetes.io/hostname: %[1]s}
  containers:
  - image: berth-mask
    name: mask
`
	limited = `apiVersion: v1
kind: Pod
metadata:
  name: server
  %[2]s
spec:
  restartPolicy: Never
  nodeSelector: {kubernetes.io/hostname: %[1]s}
  containers:
  - image: berth-burn
    name: server
    resources:
      requests: {cpu: 500m}
      limits: {cpu: 500m}
`
)

// manifest writes a manifest file for kubectl.
func manifest(dir, name, text string) (string, error) {
	file := filepath.Join(dir, name)
	return file, os.WriteFile(file, []byte(text), 0o600)
}

// scaled shows a pod with an exclusive CPU beside an ordinary pod: before, during and after.
func (t *tour) scaled(ctx context.Context) error {
	t.title("The same with a limit of 1 CPU, beside an ordinary pod")
	node, err := t.smallest(ctx)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "berth-tour-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	defer t.leave() //nolint:contextcheck // before the manifest goes
	file, err := manifest(dir, "cal-pi-and-neighbour.yaml", fmt.Sprintf(pinned, node.Name))
	if err != nil {
		return err
	}
	if err := t.apply(ctx, file); err != nil {
		return err
	}
	runs, err := t.await(ctx, runLimit)
	if err != nil {
		return err
	}
	if !runs {
		return fmt.Errorf("cal-pi with 1 CPU: not running after %s", runLimit)
	}
	if err := t.table(ctx); err != nil {
		return err
	}
	t.say("\nThe neighbour's processes shrink to the shared pool while cal-pi runs. What the agent says:")
	if err := t.run(ctx, "get", "events", "-n", namespace, "--field-selector", "reason=CPUPinned"); err != nil {
		return err
	}
	if err := t.run(ctx, "get", "nodetopologies"); err != nil {
		return err
	}
	if _, err := t.quiet(ctx, "delete", "pod", "cal-pi", "-n", namespace, "--now", "--wait"); err != nil {
		return err
	}
	t.say("\nWithout cal-pi the neighbour has all CPUs again:")
	if err := t.freed(ctx); err != nil {
		return err
	}
	t.leave() //nolint:contextcheck // it has its own
	return nil
}
