package place_test

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability/place"
	"github.com/berth-project/berth/internal/capability/place/placement"
	"github.com/berth-project/berth/internal/intent/workload"
	"github.com/berth-project/berth/internal/node/observed"
)

// busy is a node of 256 CPUs with 250 containers, of which 50 are pinned.
func busy(t testing.TB) *place.Node {
	s := shape{nodes: 4, l3: 4, cores: 8, threads: 2, memory: 64 * gi}
	n := place.New(s.facts(t))
	for i := range 250 {
		uid := fmt.Sprintf("pod-%03d", i)
		if i%5 == 0 {
			n.Pods.Put(pod(uid, i, app("app", 2)))
		} else {
			n.Pods.Put(plain(uid, i, app("app", 0)))
		}
		a := create(t, n, uid, "app")
		c := observed.Container{ID: uid + "/app", PodUID: uid, Name: "app", Phase: observed.Running, CPUs: n.Pool()}
		if a.Own != nil {
			c.CPUs = a.Own[0].CPUs
		}
		n.Pods.Observe(c)
	}
	n.Events()
	return n
}

// BenchmarkCreate measures the answer to the runtime: without containers to narrow, where the pod was seen before, and
// with all 200 containers of the shared pool to narrow.
func BenchmarkCreate(b *testing.B) {
	p := pod("new", 1000, app("app", 2))
	for _, test := range []struct {
		name  string
		pod   workload.Pod
		ready bool
	}{
		{"shared", plain("new", 1000, app("app", 0)), true},
		{"placed", placed(p, "app", "127,255", "3"), true},
		{"placed-unseen", placed(p, "app", "127,255", "3"), false},
		{"chosen-unseen", p, false},
	} {
		b.Run(test.name, func(b *testing.B) {
			n := busy(b)
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				n.Pods.Put(test.pod)
				if test.ready {
					n.Events()
				}
				b.StartTimer()
				create(b, n, "new", "app")
				b.StopTimer()
				n.Pods.Drop("new")
				n.Pods.RemovePod("new")
				n.Events()
				b.StartTimer()
			}
		})
	}
}

func BenchmarkDesired(b *testing.B) {
	n := busy(b)
	b.ReportAllocs()
	for b.Loop() {
		n.Desired()
	}
}

// BenchmarkDecideAgain measures a change of the node while many pods wait for room: each is decided again, beside memory
// that the kubelet gave to one pod. The requests of all pods are added up once; each refused pod still looks at all
// claims for one that leaves.
func BenchmarkDecideAgain(b *testing.B) {
	for _, pods := range []int{100, 1000, 4000} {
		b.Run(strconv.Itoa(pods), func(b *testing.B) {
			f := two().facts(b)
			f.Given = map[string]placement.Given{"ns/pod-0000": placement.GivenBy(f.Machine.Topology(), []v1alpha1.KubeletMemory{{NUMANodes: "1", Bytes: gi}})}
			n := place.New(f)
			for i := range pods {
				n.Pods.Put(pod(fmt.Sprintf("pod-%04d", i), i, app("app", 14)))
			}
			n.Desired()
			for b.Loop() {
				f.AllocatableMilli ^= 1
				n.SetFacts(f)
				n.Desired()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*pods), "ns/pod")
		})
	}
}
