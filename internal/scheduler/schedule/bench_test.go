package schedule

import (
	"context"
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/events"
	"k8s.io/component-base/metrics"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-project/berth/api/v1alpha1"
)

// benchCluster returns a cluster with one node that is known without any informer event.
func benchCluster(b *testing.B) (*cluster, *fakeNode) {
	b.Helper()
	client := fake.NewClientset()
	c := &cluster{t: b, ctx: b.Context(), client: client, handle: &fakeHandle{
		client: client, informers: informers.NewSharedInformerFactory(client, 0), recorder: events.NewFakeRecorder(10),
	}}
	source := &topologySource{items: map[string]*v1alpha1.NodeTopology{}}
	f := &Factory{Register: metrics.NewKubeRegistry().Register, Topologies: source}
	plugin := must(f.New(c.ctx, &runtime.Unknown{Raw: []byte(`{"staleAfterSeconds":0}`)}, c.handle))(b)
	c.plugin = plugin.(*Plugin)
	c.plugin.core.caughtUp.Store(true)
	spec := machine().Spec()
	m := must(c.plugin.core.machines.machine(&spec))(b)
	c.plugin.core.machines.set("n1", &machineOf{machine: m, hash: spec.Hash})
	node := &v1.Node{}
	node.Name = "n1"
	info := c.info(nil, node, nil)
	info.allocatable.milli, info.allocatable.pods = 32000, 110
	c.handle.snapshot = map[string]*fakeNode{"n1": info}
	return c, info
}

// BenchmarkFilter measures Filter on a node that did not change since the last call.
func BenchmarkFilter(b *testing.B) {
	c, info := benchCluster(b)
	ordinary := c.spec("o", 2)
	ordinary.Annotations = nil
	for _, test := range []struct {
		name string
		pod  *v1.Pod
	}{{"pinned", c.spec("a", 4)}, {"refused", c.spec("b", 40)}, {"ordinary", ordinary}} {
		b.Run(test.name, func(b *testing.B) {
			state := newState()
			c.plugin.PreFilter(c.ctx, state, test.pod, []fwk.NodeInfo{info})
			b.ReportAllocs()
			for b.Loop() {
				c.plugin.Filter(c.ctx, state, test.pod, info)
			}
		})
	}
}

// BenchmarkFilterChanged measures Filter on a node with 100 pods, one of which changed.
func BenchmarkFilterChanged(b *testing.B) {
	c, info := benchCluster(b)
	for range 80 {
		ordinary := c.spec("o", 1, requesting("10m"))
		ordinary.Annotations, ordinary.Spec.NodeName = nil, "n1"
		info.AddPodInfo(fakePod{pod: ordinary})
	}
	for range 20 {
		pinned := c.spec("p", 1)
		pinned.Spec.NodeName = "n1"
		state := newState()
		c.plugin.PreFilter(c.ctx, state, pinned, nil)
		if status := c.plugin.Reserve(c.ctx, state, pinned, "n1"); !status.IsSuccess() {
			b.Fatal(status.Message())
		}
		info.AddPodInfo(fakePod{pod: pinned})
	}
	filterChanged(b, c, info, map[string]*v1.Pod{"pinned": c.spec("a", 4), "ordinary": c.spec("o", 2, func(p *v1.Pod) { p.Annotations = nil })})
}

// BenchmarkFilterLabelled measures Filter on a changed node with 100 ordinary pods that carry a QoS class.
func BenchmarkFilterLabelled(b *testing.B) {
	c, info := benchCluster(b)
	for i := range 100 {
		pod := c.spec("o", 1, requesting("10m"))
		pod.Annotations, pod.Spec.NodeName = nil, "n1"
		pod.Labels = map[string]string{v1alpha1.LabelQoSClass: []string{"LS", "BE"}[i%2]}
		info.AddPodInfo(fakePod{pod: pod})
	}
	filterChanged(b, c, info, map[string]*v1.Pod{"ordinary": c.spec("o", 2, func(p *v1.Pod) { p.Annotations = nil })})
}

func filterChanged(b *testing.B, c *cluster, info *fakeNode, pods map[string]*v1.Pod) {
	for name, pod := range pods {
		b.Run(name, func(b *testing.B) {
			state := newState()
			c.plugin.PreFilter(c.ctx, state, pod, []fwk.NodeInfo{info})
			b.ReportAllocs()
			for b.Loop() {
				info.changed()
				c.plugin.Filter(c.ctx, state, pod, info)
			}
		})
	}
}

func BenchmarkPreFilter(b *testing.B) {
	c, _ := benchCluster(b)
	for name, pod := range map[string]*v1.Pod{"pinned": c.spec("a", 4), "ordinary": c.spec("o", 2, func(p *v1.Pod) { p.Annotations = nil })} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				c.plugin.PreFilter(context.WithoutCancel(c.ctx), newState(), pod, nil)
			}
		})
	}
}

// benchNodes returns a cluster with the given number of nodes.
func benchNodes(b *testing.B, nodes int) (*cluster, []fwk.NodeInfo) {
	b.Helper()
	c, first := benchCluster(b)
	m := c.plugin.core.nodes.find("n1").machine
	list := []fwk.NodeInfo{first}
	for i := range nodes - 1 {
		node := &v1.Node{}
		node.Name = fmt.Sprintf("node-%05d", i)
		c.plugin.core.machines.set(node.Name, &machineOf{ObjectMeta: metav1.ObjectMeta{Name: node.Name}, machine: m, hash: "h"})
		info := c.info(nil, node, nil)
		*info.allocatable = *first.allocatable
		c.handle.snapshot[node.Name] = info
		list = append(list, info)
	}
	return c, list
}

// BenchmarkNarrow measures the plugin's work for a pinned pod before the framework filters nodes. One node changed. The
// pod is shown its best nodes, or the one node of 100 that has an agent.
func BenchmarkNarrow(b *testing.B) {
	for _, nodes := range []int{1000, 10000} {
		c, list := benchNodes(b, nodes)
		pod := c.spec("a", 4)
		state := newState()
		c.plugin.PreFilter(c.ctx, state, pod, list)
		for _, info := range list { // as for the first pods of a scheduler
			c.plugin.Filter(c.ctx, state, pod, info)
		}
		narrow := func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				list[i%len(list)].(*fakeNode).changed()
				c.plugin.core.tries.done(pod.UID)
				if result, _ := c.plugin.PreFilter(c.ctx, newState(), pod, list); result.AllNodes() {
					b.Fatal("the pod is shown all nodes")
				}
			}
		}
		b.Run(fmt.Sprintf("best of %d", nodes), narrow)
		for i, info := range list {
			if i%100 > 0 {
				c.plugin.core.machines.set(info.Node().Name, nil)
			}
		}
		pod.Spec.Affinity = &v1.Affinity{}
		b.Run(fmt.Sprintf("open of %d", nodes), narrow)
	}
}

// BenchmarkCycle measures the plugin's work for one pod until a node is chosen. The cluster has 1,000 nodes, one of
// which changed, and the plugin is asked about all of them.
func BenchmarkCycle(b *testing.B) {
	c, list := benchNodes(b, 1000)
	pods := c.handle.informers.Core().V1().Pods().Informer().GetStore()
	hides := func(node int, name string) {
		pod := c.spec(fmt.Sprint("hides-", node), 4, requesting("1"))
		pod.Spec.NodeName = name
		if err := pods.Add(pod); err != nil {
			b.Fatal(err)
		}
	}
	pinned, ordinary := c.spec("a", 4), c.spec("o", 2, func(p *v1.Pod) { p.Annotations = nil })
	for _, test := range []struct {
		name  string
		pod   *v1.Pod
		group bool
		given func()
	}{
		{name: "pinned", pod: pinned},
		{name: "pinned in a pod group", pod: pinned, group: true},
		{name: "ordinary", pod: ordinary},
		{name: "ordinary in a pod group", pod: ordinary, group: true},
		{name: "ordinary beside a pod that hides CPUs", pod: ordinary, given: func() { hides(0, "n1") }},
		{name: "ordinary beside one that waits too", pod: ordinary, given: func() { hides(-1, "") }},
		{name: "ordinary beside 100 nodes that hide CPUs", pod: ordinary, given: func() {
			for i, info := range list[1:101] {
				hides(1+i, info.Node().Name)
			}
		}},
	} {
		b.Run(test.name, func(b *testing.B) {
			if test.given != nil {
				test.given()
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				list[i%len(list)].(*fakeNode).changed()
				cycleFor(c, test.pod, list, test.group)
			}
		})
	}
}

// cycleFor runs a cycle until a node is chosen.
func cycleFor(c *cluster, pod *v1.Pod, list []fwk.NodeInfo, group bool) {
	state := newState()
	state.group = group
	_, status := c.plugin.PreFilter(c.ctx, state, pod, list)
	for _, info := range list {
		if status.IsSkip() {
			break
		}
		c.plugin.Filter(c.ctx, state, pod, info)
	}
	if c.plugin.PreScore(c.ctx, state, pod, list).IsSkip() {
		return
	}
	for _, info := range list {
		c.plugin.Score(c.ctx, state, pod, info)
	}
}
