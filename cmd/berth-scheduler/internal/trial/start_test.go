package trial

import (
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-base/metrics"
	"k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/scheduler/schedule"
)

// berthConfig is the configuration that most tests use.
const berthConfig = "testdata/berth.yaml"

// registry returns the scheduler's registry of additional plugins, for one scheduler: it has its own metrics registry.
func registry() runtime.Registry {
	r := metrics.NewKubeRegistry()
	f := &schedule.Factory{Register: func(m metrics.Registerable) error { return r.Register(m) }}
	return runtime.Registry{schedule.Name: f.New}
}

// begin starts a scheduler with Berth and berthConfig.
func (c *cluster) begin() *running {
	c.Helper()
	return c.schedule(configFrom(c, berthConfig), registry())
}

// finish marks a pod as Succeeded, as its kubelet would.
func (c *cluster) finish(name string) {
	c.Helper()
	p := c.pod(name)
	p.Status.Phase = v1.PodSucceeded
	if _, err := c.client.CoreV1().Pods(p.Namespace).UpdateStatus(c.Context(), p, metav1.UpdateOptions{}); err != nil {
		c.Fatal(err)
	}
}

// remove deletes a pod immediately.
func (c *cluster) remove(name string) { c.api.Remove(podPath, "default", name) }

// audit checks the stored cluster against the promises of auditor.
func (c *cluster) audit() {
	c.Helper()
	if err := c.audited(); err != nil {
		c.dump()
		c.Fatal(err)
	}
}

func (c *cluster) audited() error { return c.auditor().check(c.pods()) }

// pods returns all stored pods. Callers must not change them.
func (c *cluster) pods() []*v1.Pod {
	c.Helper()
	pods, err := c.api.Pods()
	if err != nil {
		c.Fatal(err)
	}
	return pods
}

// auditor returns an auditor that knows all stored nodes.
func (c *cluster) auditor() *auditor {
	c.Helper()
	a := newAuditor()
	var topologies []v1alpha1.NodeTopology
	var nodes []v1.Node
	for path, out := range map[string]any{topologyPath: &topologies, nodePath: &nodes} {
		if err := c.api.All(path, out); err != nil {
			c.Fatal(err)
		}
	}
	allocatable := map[string]int64{}
	for i := range nodes {
		allocatable[nodes[i].Name] = nodes[i].Status.Allocatable.Cpu().MilliValue()
	}
	for i := range topologies {
		t := &topologies[i]
		a.add(t.Name, t.Spec, allocatable[t.Name])
	}
	return a
}
