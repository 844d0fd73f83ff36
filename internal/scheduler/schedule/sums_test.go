package schedule

import (
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability/place/alloc"
	"github.com/berth-project/berth/internal/capability/place/placement"
)

// The answer to a look may come after the informer showed the end of the pod. The sweeps of the plugin forget the pod.
func TestSweepForgetsAPodShownAfterItsEnd(t *testing.T) {
	inCluster(t, `{"staleAfterSeconds":0}`, func(t *testing.T, c *cluster) {
		c.node("n1")
		pod := c.ordinary("o", "10")
		c.placedOrdinary(pod)
		last := c.get(pod)
		c.remove(pod)
		c.plugin.core.take(nil, last, true)
		s := &c.plugin.core.nodes.sums
		counted := func() (nodes, ahead int) {
			s.mu.Lock()
			defer s.mu.Unlock()
			return len(s.nodes), len(s.ahead)
		}
		if nodes, ahead := counted(); nodes != 1 || ahead != 1 {
			t.Fatalf("%d nodes and %d pods ahead count, want 1 and 1", nodes, ahead)
		}
		time.Sleep((keepAbsent + 2) * sweepEvery)
		c.settle()
		if nodes, ahead := counted(); nodes != 0 || ahead != 0 {
			t.Errorf("%d nodes and %d pods ahead count after the sweeps", nodes, ahead)
		}
	})
}

// What a pod requests does not count against its own binding, whatever the node knows of the pod.
func TestSumsExceptOwn(t *testing.T) {
	c := &cluster{}
	own, other := c.spec("own", 3), c.spec("other", 2)
	own.Spec.NodeName, other.Spec.NodeName = "n1", "n1"
	for what, learn := range map[string]func(*sums, *node){
		"counted":  func(s *sums, _ *node) { s.count(own, false) },
		"reserved": func(_ *sums, n *node) { n.put(own.UID, &record{pod: own, reserved: true}) },
		"ambiguous": func(_ *sums, n *node) {
			n.ambiguous = append(n.ambiguous, &ambiguousBind{uid: own.UID, request: requestedBy(own)})
		},
	} {
		store := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
		for _, pod := range []*v1.Pod{own, other} {
			if err := store.Add(pod); err != nil {
				t.Fatal(err)
			}
		}
		var s sums
		n := &node{name: "n1"}
		s.count(other, false)
		learn(&s, n)
		for uid, want := range map[types.UID]int64{own.UID: 2000, "": 5000} {
			if got := s.on(n, uid); got != want {
				t.Errorf("%s: without %q the pods request %d, want %d", what, uid, got, want)
			}
			if got := s.again(n, uid, corelisters.NewPodLister(store)); got != want {
				t.Errorf("%s: by the store, without %q the pods request %d, want %d", what, uid, got, want)
			}
		}
	}
}

// An ambiguous bind adds nothing to a record of the same pod with the same CPUs and memory, and only its memory if that
// is elsewhere.
func TestAmbiguousBindBesideRecord(t *testing.T) {
	c, m := &cluster{}, must(alloc.Compile(machine()))(t)
	pod := c.spec("a", 2, memory("20Gi", ""))
	pin, _ := pinningOf(pod)
	heldFrom := func(mems string) placement.Held {
		return placement.HeldBy(m, pin, v1alpha1.Placement{V: 1, Topology: machine().Hash(), Containers: map[string]v1alpha1.ContainerPlacement{
			"app": {CPUs: "0,16", Mems: mems, Policy: v1alpha1.PlacementExclusive},
		}}.Encode())
	}
	for _, mems := range [][2]string{{"0", "0"}, {"0-1", "0-1"}, {"0", "1"}, {"1", "0"}, {"0", "0-1"}, {"0-1", "0"}} {
		t.Run(fmt.Sprint(mems), func(t *testing.T) {
			first, second := heldFrom(mems[0]), heldFrom(mems[1])
			n := &node{name: "n1", machine: m}
			var got, want placement.Occupancy
			got.Add(m, &first)
			want.Add(m, &first)
			n.addAmbiguous(&ambiguousBind{uid: pod.UID, held: second}, &record{pod: pod, held: first, confirmed: true}, &got)
			if mems[0] != mems[1] {
				want.AddMemory(&second)
			}
			if !got.Equal(&want) {
				t.Errorf("the node has %+v, want %+v", got, want)
			}
		})
	}
}
