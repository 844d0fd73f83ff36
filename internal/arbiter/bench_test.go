package arbiter_test

import (
	"fmt"
	"testing"

	"github.com/berth-project/berth/internal/arbiter"
)

// busy is a node of 256 CPUs with 250 containers, of which 50 are pinned.
func busy(t testing.TB) *arbiter.Node {
	s := shape{nodes: 4, l3: 4, cores: 8, threads: 2, memory: 64 * gi}
	n := arbiter.New(s.facts(t))
	for i := range 250 {
		uid := fmt.Sprintf("pod-%03d", i)
		if i%5 == 0 {
			n.PutPod(pod(uid, i, app("app", 2)))
		} else {
			n.PutPod(plain(uid, i, app("app", 0)))
		}
		a := create(t, n, uid, "app")
		c := arbiter.Container{ID: uid + "/app", PodUID: uid, Name: "app", Phase: arbiter.Running, CPUs: n.Pool()}
		if a.Own != nil {
			c.CPUs = a.Own[0].CPUs
		}
		n.Observe(c)
	}
	n.News()
	return n
}

func BenchmarkCreate(b *testing.B) {
	b.Run("shared", func(b *testing.B) {
		n := busy(b)
		n.PutPod(plain("new", 1000, app("app", 0)))
		b.ReportAllocs()
		for b.Loop() {
			create(b, n, "new", "app")
			n.Remove("new/app")
		}
	})
	b.Run("placed", func(b *testing.B) {
		n := busy(b)
		p := placed(pod("new", 1000, app("app", 2)), "app", "127,255", "3")
		b.ReportAllocs()
		for b.Loop() {
			n.PutPod(p)
			create(b, n, "new", "app")
			n.DropPod("new")
			n.RemovePod("new")
		}
	})
	b.Run("chosen", func(b *testing.B) {
		n := busy(b)
		p := pod("new", 1000, app("app", 2))
		b.ReportAllocs()
		for b.Loop() {
			n.PutPod(p)
			create(b, n, "new", "app")
			n.DropPod("new")
			n.RemovePod("new")
			n.News()
		}
	})
}

func BenchmarkWishes(b *testing.B) {
	n := busy(b)
	b.ReportAllocs()
	for b.Loop() {
		n.Wishes()
	}
}
