package schedule

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-project/berth/api/v1alpha1"
)

// statuses contains the answers of the nodes in one cycle.
type statuses struct {
	*cluster
	said map[string]*fwk.Status
}

func (s statuses) Get(name string) *fwk.Status { return s.said[name] }

func (s statuses) NodesForStatusCode(_ fwk.NodeInfoLister, code fwk.Code) ([]fwk.NodeInfo, error) {
	var infos []fwk.NodeInfo
	for _, name := range slices.Sorted(maps.Keys(s.said)) {
		if s.said[name].Code() == code {
			infos = append(infos, s.handle.snapshot[name])
		}
	}
	return infos, nil
}

// postFilter runs the cycle of a pod that no node accepts, and returns the message of PostFilter.
func (c *cluster) postFilter(pod *v1.Pod) string {
	c.t.Helper()
	return c.afterFilter(c.filter(pod))
}

// afterFilter continues such a cycle.
func (c *cluster) afterFilter(a *attempt) string {
	c.t.Helper()
	s := statuses{cluster: c, said: map[string]*fwk.Status{}}
	for name, info := range c.handle.snapshot {
		status := c.plugin.Filter(c.ctx, a.state, a.pod, info)
		if status.IsSuccess() {
			c.t.Fatalf("node %s takes pod %s", name, a.pod.Name)
		}
		status.SetPlugin(Name) // as the framework does
		s.said[name] = status
	}
	before := c.decided()
	result, status := c.plugin.PostFilter(c.ctx, a.state, a.pod, s)
	if result != nil || status.Code() != fwk.Unschedulable {
		c.t.Fatalf("PostFilter helps pod %s: %v, %v", a.pod.Name, result, status)
	}
	c.decides = c.decided() - before
	return status.Message()
}

// decided returns the number of answers that were computed since the last sweep.
func (c *cluster) decided() int {
	count := 0
	for _, n := range c.plugin.core.nodes.all() {
		n.mu.Lock()
		count += int(n.memo.misses)
		n.mu.Unlock()
	}
	return count
}

// holding creates a pod that is bound to a node with the given CPUs.
func (c *cluster) holding(name, node, cpus string, count int, options ...option) *v1.Pod {
	c.t.Helper()
	pod := c.spec(name, count, append(options, annotated(v1alpha1.AnnotationPlacement, `{"v":1,"topology":"`+machine().Hash()+
		`","containers":{"app":{"cpus":"`+cpus+`","mems":"0-1","policy":"exclusive"}}}`))...)
	pod.Spec.NodeName = node
	return c.create(pod)
}

// gauge returns the nonzero values of a gauge by its label.
func (c *cluster) gauge(name string) map[string]float64 {
	c.t.Helper()
	values := map[string]float64{}
	for _, family := range must(c.registry.Gather())(c.t) {
		if family.GetName() != name {
			continue
		}
		for _, one := range family.GetMetric() {
			if one.GetGauge().GetValue() != 0 {
				values[one.GetLabel()[0].GetValue()] = one.GetGauge().GetValue()
			}
		}
	}
	return values
}

// A pod that would fit by the number of free CPUs, but not by their location, is reported as fragmentation. The message
// names the node that lacks least. The metrics count the pod until it is bound or gone.
func TestPendingByFragmentation(t *testing.T) {
	inCluster(t, `{"staleAfterSeconds":0}`, func(t *testing.T, c *cluster) {
		c.node("n1")
		c.node("n2")
		c.holding("a", "n1", "0-3,16-19", 8)
		c.holding("b", "n1", "8-11,24-27", 8)
		c.holding("c", "n2", "0-1,16-17", 4)
		last := c.holding("d", "n2", "8-10,24-26", 6)
		single := annotated(numaSpec, `{"numaTopologyPolicy":"SingleNUMANode"}`)
		pod := c.pod("p", 14, single)
		const want = "pending by fragmentation: node n2 has 20 free CPUs, but fewer than 14 free CPUs in one NUMA node: the most there are is 12 (2 missing)"
		if got := c.postFilter(pod); got != want {
			t.Errorf("PostFilter says %q, want %q", got, want)
		}
		twin := c.pod("twin", 14, single)
		if got := c.postFilter(twin); got != want {
			t.Errorf("for a pod that asks for the same PostFilter says %q", got)
		}
		time.Sleep(sweepEvery)
		c.settle()
		pods, cpus := c.gauge("berth_scheduler_fragmented_pods"), c.gauge("berth_scheduler_fragmented_missing_cpus")
		if !maps.Equal(pods, map[string]float64{"numa": 2}) || !maps.Equal(cpus, map[string]float64{"numa": 4}) {
			t.Errorf("the metrics say %v pods, %v CPUs", pods, cpus)
		}
		c.remove(last)
		c.placed(pod)
		c.remove(twin)
		time.Sleep(sweepEvery)
		c.settle()
		if pods = c.gauge("berth_scheduler_fragmented_pods"); len(pods) > 0 {
			t.Errorf("after the end of the wait the metric says %v", pods)
		}
	})
}

// Fragmentation is not the reason if the number of CPUs does not suffice or if a rule refuses the pod. A pod that was
// counted before is then forgotten.
func TestNotPendingByFragmentation(t *testing.T) {
	inCluster(t, `{"staleAfterSeconds":0}`, func(t *testing.T, c *cluster) {
		c.node("n1")
		c.holding("a", "n1", "0-3,16-19", 8)
		c.holding("b", "n1", "8-11,24-27", 8)
		pod := c.pod("p", 12, annotated(numaSpec, `{"numaTopologyPolicy":"SingleNUMANode"}`))
		if c.postFilter(pod) == "" {
			t.Fatal("nothing is said of 12 CPUs in one NUMA node of which each has 8 free")
		}
		c.holding("c", "n1", "4-6,20-22", 6)
		time.Sleep(shortKept + time.Second)
		if got := c.postFilter(pod); got != "" || len(c.plugin.core.shortages.pods) > 0 {
			t.Errorf("with 10 free CPUs PostFilter says %q", got)
		}
		if got := c.postFilter(c.ordinary("o", "30")); got != "" {
			t.Errorf("of an ordinary pod PostFilter says %q", got)
		}
		c.bareNode("n2")
		c.settle()
		if got := c.postFilter(c.pod("huge", 64)); got != "" {
			t.Errorf("of a pod larger than all nodes PostFilter says %q", got)
		}
	})
}

// PostFilter does not ask a node again that Filter asked in the same cycle. That holds for every answer and any number
// of waiting shapes.
func TestShortageIsRemembered(t *testing.T) {
	inCluster(t, `{"staleAfterSeconds":0}`, func(t *testing.T, c *cluster) {
		c.node("n1")
		c.holding("a", "n1", "0-3,16-19", 8)
		c.holding("b", "n1", "8-11,24-27", 8)
		c.holding("c", "n1", "4,20", 2)
		for turn := range 3 {
			for _, test := range []struct {
				cpus    int
				policy  string
				claims  *claimed
				lacking bool
			}{
				{cpus: 13}, // fit, but leave no core for the shared pool
				{cpus: 14},
				{cpus: 10, policy: "SingleNUMANode", lacking: true},
				{cpus: 12, policy: "SingleNUMANode", lacking: true},
				{cpus: 14, claims: new(claimed)},
			} {
				pod := c.pod(fmt.Sprintf("p%d", c.uids), test.cpus, annotated(numaSpec, `{"numaTopologyPolicy":"`+test.policy+`"}`))
				a := c.filter(pod)
				cycleOf(a.state).claimed = test.claims
				said := c.afterFilter(a)
				if c.decides > 0 || (said != "") != test.lacking {
					t.Errorf("%d CPUs, cycle %d: PostFilter asks %d nodes again and says %q", test.cpus, turn, c.decides, said)
				}
			}
		}
	})
}

// If moves of movable pods make room, one event names the node and the moves. Without the opt-in of the pods nothing is
// said. Nothing is moved, and nothing is remembered of a pod that is gone.
func TestFitsAfterRepack(t *testing.T) {
	for _, opted := range []bool{true, false} {
		inCluster(t, `{"staleAfterSeconds":0}`, func(t *testing.T, c *cluster) {
			movable := annotated(v1alpha1.AnnotationMovable, map[bool]string{true: "true", false: "yes"}[opted])
			c.node("n1")
			a := c.holding("a", "n1", "0-3,16-19", 8, movable)
			c.holding("b", "n1", "8-11,24-27", 8)
			pod := c.pod("p", 12, annotated(numaSpec, `{"numaTopologyPolicy":"SingleNUMANode"}`))
			for range 2 {
				c.postFilter(pod)
				time.Sleep(shortKept + time.Second)
				c.settle()
			}
			var got []string
			for len(c.handle.recorder.Events) > 0 {
				got = append(got, <-c.handle.recorder.Events)
			}
			want := []string{"Normal FitsAfterRepack node n1 would have room after a repack of 1: default/a from CPUs 0-3,16-19 to 12-15,28-31; kubectl berth repack n1 carries it out"}
			if !opted {
				want = nil
			}
			if !slices.Equal(got, want) {
				t.Errorf("opted in: %t: events %q, want %q", opted, got, want)
			}
			if cpus := c.cpus(a).String(); cpus != "0-3,16-19" {
				t.Errorf("pod a has %s now", cpus)
			}
			c.remove(pod)
			time.Sleep(sweepEvery)
			c.settle()
			if core := c.plugin.core; len(core.shortages.pods)+len(core.repacks.known.pods) > 0 {
				t.Errorf("of a pod that is gone is still known: %v, %v", core.shortages.pods, core.repacks.known.pods)
			}
		})
	}
}

// The event and the condition are in the namespace of the waiting pod. Neither may name a pod of another namespace or
// its CPUs.
func TestRepackNamesOwnNamespaceOnly(t *testing.T) {
	for _, test := range []struct{ namespace, want string }{
		{"team", "after a repack of 2: team/a from CPUs 0-1,16-17 to 10-11,26-27, 1 pod(s) of other namespaces; kubectl"},
		{"te", "after a repack of 2: 2 pod(s) of other namespaces; kubectl"},
	} {
		inCluster(t, `{"staleAfterSeconds":0}`, func(t *testing.T, c *cluster) {
			movable := annotated(v1alpha1.AnnotationMovable, "true")
			c.node("n1")
			c.holding("a", "n1", "0-1,16-17", 4, movable, in("team"))
			c.holding("b", "n1", "2-3,18-19", 4, movable, in("rival"))
			c.holding("c", "n1", "8-9,24-25", 4, in("rival"))
			said := c.postFilter(c.pod("p", 16, annotated(numaSpec, `{"numaTopologyPolicy":"SingleNUMANode"}`), in(test.namespace)))
			c.settle()
			event := <-c.handle.recorder.Events
			if !strings.Contains(event, test.want) {
				t.Errorf("in namespace %s the event is %q, want %q", test.namespace, event, test.want)
			}
			if strings.Contains(said+event, "rival") || strings.Contains(said, "team") {
				t.Errorf("in namespace %s: %q and %q", test.namespace, said, event)
			}
		})
	}
}

// The pause before the next search is nine times as long as the last search. No search starts after the plugin has
// stopped.
func TestRepackSearchesPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r repacks
		begin := func(ctx context.Context) {
			if !r.busy.CompareAndSwap(false, true) {
				t.Fatal("a search is under way")
			}
			go r.search(ctx, func() { time.Sleep(2 * time.Second) })
			synctest.Wait()
		}
		begin(t.Context())
		time.Sleep(20*time.Second - time.Nanosecond)
		synctest.Wait()
		if !r.busy.Load() {
			t.Error("the next search may begin early")
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		begin(ctx)
		time.Sleep(2 * time.Second)
		cancel()
		synctest.Wait()
		if r.busy.Load() {
			t.Error("it pauses after its end")
		}
	})
}

// With sayFitsAfterRepack, Filter says after how many moves a node would accept the pod. It does so once the background
// search knows, without another decision, and only while that is true.
func TestFilterSaysRepack(t *testing.T) {
	for args, says := range map[string]bool{`{"staleAfterSeconds":0,"sayFitsAfterRepack":true}`: true, `{"staleAfterSeconds":0}`: false} {
		inCluster(t, args, func(t *testing.T, c *cluster) {
			c.node("n1")
			a := c.holding("a", "n1", "0-3,16-19", 8, annotated(v1alpha1.AnnotationMovable, "true"))
			c.holding("b", "n1", "8-11,24-27", 8)
			single := annotated(numaSpec, `{"numaTopologyPolicy":"SingleNUMANode"}`)
			pod := c.pod("p", 12, single)
			said := func(pod *v1.Pod) string {
				c.look()
				attempt := c.filterBehind(pod)
				before := c.decided()
				status := c.plugin.Filter(c.ctx, attempt.state, attempt.pod, c.handle.snapshot["n1"])
				if status.Code() != fwk.Unschedulable || c.decided() > before {
					t.Errorf("Filter says %v after %d decisions: preemption has to see the node, and the plan costs none", status, c.decided()-before)
				}
				return strings.Join(status.Reasons(), "; ")
			}
			const lacks = "node(s) had fewer than 12 free CPUs in one NUMA node"
			want := lacks
			if got := said(pod); got != want {
				t.Errorf("before any search Filter says %q", got)
			}
			c.postFilter(pod)
			c.settle()
			if says {
				want = lacks + "; node(s) fit after repack of 1 move(s)"
			}
			if got := said(pod); got != want {
				t.Errorf("after the search Filter says %q, want %q", got, want)
			}
			if got := said(c.pod("twin", 12, single)); got != want {
				t.Errorf("to a pod that asks for the same Filter says %q, want %q", got, want)
			}
			c.update(a, func(pod *v1.Pod) { pod.Status.PodIP = "10.0.0.1" })
			if got := said(pod); got != want {
				t.Errorf("after a change of a status Filter says %q, want %q", got, want)
			}
			c.update(a, func(pod *v1.Pod) { pod.Annotations[v1alpha1.AnnotationMovable] = "false" })
			if got := said(pod); got != lacks {
				t.Errorf("where no pod may be moved any more Filter says %q", got)
			}
		})
	}
}
