package schedule

import (
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
)

// Between Reserve and Bind a resize is carried out, or another scheduler binds a pod. The binding is refused if the
// accounting rule would be broken, and only then.
func TestRuleAtBinding(t *testing.T) {
	resized := func(to int) func(*cluster, *v1.Pod) {
		return func(c *cluster, a *v1.Pod) {
			c.update(a, resize(to))
			c.update(a, has(fmt.Sprintf("0-1,8-%d,16-17,24-%d", 5+to/2, 21+to/2))) // the other pod's CPUs stay free
			c.update(a, carriedOut)
		}
	}
	bound := func(request string) func(*cluster, *v1.Pod) {
		return func(c *cluster, _ *v1.Pod) {
			pod := c.spec("rival", 1, requesting(request))
			pod.Annotations, pod.Spec.Containers[0].Resources.Limits, pod.Spec.NodeName = nil, nil, "n1"
			c.create(pod)
		}
	}
	for _, test := range []struct {
		name  string
		then  func(*cluster, *v1.Pod)
		fits  bool
		again bool // with a scheduler that started after the first pods were bound
	}{
		{name: "nothing", then: func(*cluster, *v1.Pod) {}, fits: true},
		{name: "a resize that leaves room", then: resized(8), fits: true},
		{name: "a resize", then: resized(10)},
		{name: "a resize after a restart", then: resized(10), again: true},
		{name: "another scheduler's pod that leaves room", then: bound("4"), fits: true},
		{name: "another scheduler's pod", then: bound("4001m")},
		{name: "another scheduler's pod after a restart", then: bound("4001m"), again: true},
	} {
		for _, pinned := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, pinned %v", test.name, pinned), func(t *testing.T) {
				inCluster(t, `{"staleAfterSeconds":0}`, func(t *testing.T, c *cluster) {
					c.node("n1")
					first := c.pod("first", 4, requesting("1"))
					c.placed(first)
					c.placedOrdinary(c.ordinary("fills", "20"))
					if test.again {
						c.start()
					}
					pod := c.ordinary("o", "4")
					if pinned {
						pod = c.pod("p", 4, requesting("2"))
					}
					a := c.reserve(c.filter(pod))
					sent := c.requests
					test.then(c, first)
					c.finish(a)
					if a.status.IsSuccess() != test.fits {
						t.Fatalf("Bind: %v", a.status)
					}
					if !test.fits && (a.status.Code() != fwk.Unschedulable || a.status.Message() != textRace || c.requests != sent) {
						t.Errorf("Bind: %s %s, %d requests", a.status.Code(), a.status.Message(), c.requests-sent)
					}
				})
			})
		}
	}
}

// Pods on their way to a node count once, whatever has been shown of them, and a pod without a request is always bound.
func TestRuleCountsOnce(t *testing.T) {
	inCluster(t, `{"staleAfterSeconds":0}`, func(t *testing.T, c *cluster) {
		c.node("n1")
		var all []*attempt
		for _, pod := range []*v1.Pod{c.pod("a", 8, requesting("2")), c.ordinary("b", "8"), c.pod("d", 8), c.ordinary("e", "8")} {
			all = append(all, c.reserve(c.filter(pod)))
		}
		free := c.reserve(c.filter(c.ordinary("free", "0")))
		for _, a := range all {
			if c.finish(a); !a.status.IsSuccess() {
				t.Fatalf("pod %s: %s", a.pod.Name, a.status.Message())
			}
		}
		rival := c.spec("rival", 1, requesting("5"))
		rival.Annotations, rival.Spec.NodeName = nil, "n1"
		c.create(rival)
		if c.finish(free); !free.status.IsSuccess() {
			t.Errorf("a pod without a request: %s", free.status.Message())
		}
		if got := c.plugin.core.nodes.sums.nodes["n1"].milli; got != 31000 {
			t.Errorf("the bound pods request %d, want 31000", got)
		}
		for _, a := range all {
			c.remove(a.pod)
		}
		c.update(rival, func(p *v1.Pod) { p.Status.Phase = v1.PodSucceeded })
		if s := &c.plugin.core.nodes.sums; len(s.nodes) != 0 || len(s.ahead) != 0 {
			t.Errorf("all pods ended, and %d nodes and %d pods ahead count", len(s.nodes), len(s.ahead))
		}
	})
}

// While the binding of an ordinary pod is sent its request counts. A failed binding leaves nothing but an ambiguous
// bind, which counts until it is over.
func TestRuleBesideBindingUnderWay(t *testing.T) {
	inCluster(t, `{"staleAfterSeconds":0}`, func(t *testing.T, c *cluster) {
		c.node("n1")
		first := c.pod("first", 4)
		c.placed(first)
		one, two := c.reserve(c.filter(c.ordinary("one", "14"))), c.reserve(c.filter(c.ordinary("two", "14")))
		c.update(first, resize(8))
		c.update(first, has("0-3,16-19"))
		c.update(first, carriedOut)
		c.fault = func(*v1.Binding) (bool, error) {
			c.fault = nil
			c.handle.calls = &fakeCalls{c: c, err: errors.New("sent")} // the in-memory API handles one request at a time
			if two.status = c.plugin.Bind(c.ctx, two.state, two.pod, two.node); two.status.Message() != textRace {
				t.Errorf("bound beside a binding under way: %v", two.status)
			}
			c.handle.calls = nil
			return false, errors.New("EOF")
		}
		c.finish(one)
		if two.status = c.plugin.Bind(c.ctx, two.state, two.pod, two.node); two.status.Message() != textRace {
			t.Errorf("bound beside an ambiguous bind: %v", two.status)
		}
		time.Sleep(2 * requestTimeout)
		c.settle()
		if c.finish(two); !two.status.IsSuccess() {
			t.Errorf("bound beside nothing: %s", two.status.Message())
		}
		if s := &c.plugin.core.nodes.sums; len(s.ahead) != 0 || len(s.nodes["n1"].pods) != 2 {
			t.Errorf("%d pods ahead, %d counted", len(s.ahead), len(s.nodes["n1"].pods))
		}
	})
}

// A pod whose binding seemed to fail counts once: also if it is bound, or tried again, before the ambiguous bind is over.
func TestRuleCountsAmbiguousBindOnce(t *testing.T) {
	inCluster(t, `{"staleAfterSeconds":0}`, func(t *testing.T, c *cluster) {
		c.node("n1")
		c.fault = func(*v1.Binding) (bool, error) { return true, errors.New("EOF") }
		c.schedule(c.ordinary("one", "16"))
		c.fault = nil
		if _, ambiguous := c.plugin.core.flights.size(); ambiguous != 1 {
			t.Fatalf("%d ambiguous binds, want 1", ambiguous)
		}
		if a := c.schedule(c.ordinary("two", "16")); !a.status.IsSuccess() {
			t.Errorf("16 CPUs beside 16 of 32: %s", a.status.Message())
		}
	})
	inCluster(t, `{"staleAfterSeconds":0}`, func(t *testing.T, c *cluster) {
		c.node("n1")
		c.fault = func(*v1.Binding) (bool, error) { return false, errors.New("EOF") }
		pod := c.pod("one", 16)
		c.schedule(pod)
		c.fault = nil
		c.reserve(c.filter(pod))
		if a := c.schedule(c.ordinary("two", "16")); !a.status.IsSuccess() {
			t.Errorf("16 CPUs beside 16 of 32, which are tried again: %s", a.status.Message())
		}
	})
}

// The handler of nodes can be behind too: a node that grew refuses no pod by its earlier size.
func TestRuleByTheSizeInTheStore(t *testing.T) {
	inCluster(t, `{"staleAfterSeconds":0}`, func(t *testing.T, c *cluster) {
		c.node("n1")
		a := c.reserve(c.filter(c.ordinary("o", "20")))
		n := c.plugin.core.nodes.find("n1")
		n.mu.Lock()
		n.allocatable = 16000
		n.mu.Unlock()
		if c.finish(a); !a.status.IsSuccess() {
			t.Errorf("20 CPUs on a node that has 32 by now: %s", a.status.Message())
		}
	})
}

// The handlers can be behind the scheduler's cache: a pod whose end the informer's store shows refuses no other.
func TestRuleByTheStore(t *testing.T) {
	for _, pinned := range []bool{false, true} {
		inCluster(t, `{"staleAfterSeconds":0}`, func(t *testing.T, c *cluster) {
			c.node("n1")
			ended := c.spec("ended", 20, requesting("1"))
			if !pinned {
				requesting("20")(ended)
				ended.Annotations = nil
			}
			c.create(ended)
			if a := c.schedule(ended); !a.status.IsSuccess() {
				t.Fatal(a.status.Message())
			}
			last := c.get(ended)
			c.remove(ended)
			a := c.reserve(c.filter(c.ordinary("o", "20")))
			c.plugin.core.onPod(nil, last)
			if c.finish(a); !a.status.IsSuccess() {
				t.Errorf("pinned %v: refused beside a pod that ended: %s", pinned, a.status.Message())
			}
		})
	}
}

// Sums follow the pods: status, end, a successor of the same name, and pods that the informer never shows bound.
func TestSums(t *testing.T) {
	c := &cluster{}
	var s sums
	want := func(what string, milli int64, early int) {
		t.Helper()
		got := int64(0)
		if here := s.nodes["n1"]; here != nil {
			got = here.milli
		}
		if got != milli || len(s.ahead) != early || len(s.nodes) > 1 || milli == 0 && len(s.nodes) > 0 {
			t.Errorf("%s: %d and %d ahead, want %d and %d", what, got, len(s.ahead), milli, early)
		}
	}
	pod, other := c.spec("a", 1), c.spec("b", 2)
	bound := pod.DeepCopy()
	bound.Spec.NodeName = "n1"
	s.claim(pod, "n1", 1000)
	want("claimed", 1000, 1)
	s.unclaim(pod, "n1")
	want("failed", 0, 0)
	s.claim(pod, "n1", 1000)
	s.count(bound, false)
	want("shown", 1000, 0)
	s.unclaim(pod, "n1")
	want("failed after it was shown", 1000, 0)
	s.claim(pod, "n1", 1000)
	want("claimed again", 1000, 0)
	larger := bound.DeepCopy()
	requesting("1500m")(larger)
	s.count(larger, false)
	want("resized", 1500, 0)
	s.claim(other, "n1", 2000)
	s.drop(other)
	want("deleted, and never shown bound", 1500, 0)
	other.Spec.NodeName = "n1"
	s.count(other, true)
	want("foretold", 3500, 1)
	for range keepAbsent {
		s.sweep(func(string, string, types.UID) bool { return true })
	}
	want("not shown yet", 3500, 1)
	s.sweep(func(string, string, types.UID) bool { return true })
	want("gone", 1500, 0)
	s.drop(larger)
	want("ended", 0, 0)
}

// BenchmarkSums measures a change of status of a running pod, and reports the heap for each of 100 pods of a node.
func BenchmarkSums(b *testing.B) {
	c, s := &cluster{}, &sums{}
	pod := c.spec("a", 2)
	pod.Spec.NodeName = "n1"
	resize(2)(pod)
	b.Run("event", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			s.count(pod, false)
		}
	})
	b.Run("heap", func(b *testing.B) {
		const nodes, pods = 1000, 100
		all := make([]*v1.Pod, 0, nodes*pods)
		for i := range nodes * pods {
			one := &v1.Pod{}
			one.UID, one.Spec = types.UID(fmt.Sprint("uid-", i)), pod.Spec
			one.Spec.NodeName = fmt.Sprint("n", i%nodes)
			all = append(all, one)
		}
		for b.Loop() {
			full, before := &sums{}, heapInUse()
			for _, one := range all {
				full.count(one, false)
			}
			b.ReportMetric(float64(heapInUse()-before)/float64(len(all)), "B/pod")
			runtime.KeepAlive(full)
		}
		runtime.KeepAlive(all)
	})
}

func heapInUse() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
