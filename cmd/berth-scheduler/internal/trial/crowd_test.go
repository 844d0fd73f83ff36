package trial

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
)

// TestCrowd schedules 500 pods at once, pinned and ordinary, on machines with almost exactly enough CPUs for them.
func TestCrowd(t *testing.T) {
	c := newCluster(t)
	big := shape{nodes: 2, l3: 4, cores: 8, threads: 2} // 128 CPUs
	for i := range 10 {
		c.addMachine(name("n", i), big)
	}
	c.begin()
	start := time.Now()
	for i := range 250 {
		c.create(pinned(name("pinned", i), 1, 4), ordinary(name("ordinary", i), 1000, 0))
	}
	// 10 x 128 = 1280 CPUs; 250 x 4 + 250 x 1 = 1250.
	c.until("500 pods are bound", func() bool { return c.count(bound) == 500 })
	t.Logf("500 pods in %v", time.Since(start).Round(time.Millisecond))
	c.audit()
}

func bound(p *v1.Pod) bool { return p.Spec.NodeName != "" }

// count returns the number of stored pods for which ok is true.
func (c *cluster) count(ok func(*v1.Pod) bool) int {
	c.Helper()
	n := 0
	for _, p := range c.pods() {
		if ok(p) {
			n++
		}
	}
	return n
}
