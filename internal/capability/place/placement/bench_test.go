package placement_test

import (
	"testing"

	"github.com/berth-project/berth/internal/capability/place/alloc"
	"github.com/berth-project/berth/internal/capability/place/placement"
	"github.com/berth-project/berth/internal/intent/workload"
)

// half returns a half full node of 512 CPUs.
func half(t testing.TB) (placement.Node, placement.Occupancy) {
	n := shape{nodes: 8, l3: 4, cores: 8, threads: 2, memory: 64 * gi, huge: 32, gpus: 1}.node(t)
	var o placement.Occupancy
	for _, cpus := range []string{"0-15,256-271", "40-55", "64-95,320-351", "130-131", "160-220"} {
		give(&o, n.Machine, one(t, int64(set(t, cpus).Size())), written(cpus, "0-7"))
		n.RequestedMilli += int64(set(t, cpus).Size()) * 1000
	}
	return n, o
}

func BenchmarkDecide(b *testing.B) {
	n, o := half(b)
	var s alloc.Scratch
	for _, test := range []struct {
		name string
		cpus int64
	}{{"4", 4}, {"64", 64}, {"refused", 400}} {
		ask := placement.AskOf(one(b, test.cpus))
		b.Run(test.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				placement.Decide(&s, n, &o, &ask)
			}
		})
	}
	// With every resource that a NUMA node can have. In the first case one node has them all; in the second, two nodes
	// have them together.
	for _, test := range []struct {
		name string
		gpus int64
	}{{"near", 1}, {"span", 2}} {
		p := hugePod(b, 8, 8*gi)
		p.Besides.Devices = []workload.Device{{Resource: gpu, Count: test.gpus}}
		ask := placement.AskOf(p)
		b.Run(test.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				placement.Decide(&s, n, &o, &ask)
			}
		})
	}
	b.Run("room", func(b *testing.B) {
		for b.Loop() {
			n.Room(&o, 500)
		}
	})
}

func BenchmarkHeldBy(b *testing.B) {
	m := shape{nodes: 8, l3: 4, cores: 8, threads: 2, memory: 64 * gi}.machine(b)
	p := one(b, 4)
	b.ReportAllocs()
	for b.Loop() {
		placement.HeldBy(m, p, written("0-3", "0"))
	}
}

// TestSizes checks the memory promises for a placed container and for a node without pinned pods, and that refusals
// allocate nothing.
func TestSizes(t *testing.T) {
	if got := placement.HeldSize(); got > 256 {
		t.Errorf("a placed container takes %d bytes, more than 256", got)
	}
	n, o := half(t)
	ask := placement.AskOf(one(t, 400))
	var s alloc.Scratch
	if got := testing.AllocsPerRun(100, func() { placement.Decide(&s, n, &o, &ask) }); got > 0 {
		t.Errorf("refusing allocates %v times", got)
	}
	if got := testing.AllocsPerRun(100, func() { n.Room(&o, 500) }); got > 0 {
		t.Errorf("the rule for ordinary pods allocates %v times", got)
	}
}
