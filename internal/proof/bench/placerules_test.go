package bench

import (
	"cmp"
	"math"
	"slices"
	"testing"

	"github.com/berth-project/berth/internal/capability/place/alloc"
	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/proof/rival"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// ruleArm places each pod that fits into one L3 domain by the worth of the free CPUs of domains: where the worth falls
// least. Berth places the CPUs in the domain. A pod that fits into no domain is placed by Berth or, with crumbs, gets
// the domains with the fewest free CPUs, wherever they are.
func ruleArm(name string, worth func(free int) float64, crumbs bool) placeArm {
	return placeArm{name: name, open: func(t *topology.Topology) (pickCPUs, error) {
		berth, err := berthArm(name, promiseNone, alloc.Request{}).open(t)
		if err != nil {
			return nil, err
		}
		return func(held cpuset.Set, n int) (cpuset.Set, bool) {
			free := t.Containers().Difference(held)
			at, least := -1, math.Inf(1)
			for i, d := range t.L3 {
				in := d.CPUs.Intersect(free).Size()
				if in < n {
					continue
				}
				if loss := worth(in) - worth(in-n); loss < least {
					at, least = i, loss
				}
			}
			switch {
			case at >= 0:
				return berth(held.Union(t.Online.Difference(t.L3[at].CPUs)), n)
			case crumbs && free.Size() >= n:
				return crumbled(t, free, n), true
			}
			return berth(held, n)
		}, nil
	}}
}

// crumbled takes n free CPUs from the domains that have fewest.
func crumbled(t *topology.Topology, free cpuset.Set, n int) (cpus cpuset.Set) {
	l3s := slices.Clone(t.L3)
	slices.SortStableFunc(l3s, func(a, b topology.L3) int {
		return cmp.Compare(a.CPUs.Intersect(free).Size(), b.CPUs.Intersect(free).Size())
	})
	for _, d := range l3s {
		for cpu := range d.CPUs.Intersect(free).All() {
			if cpus.Size() < n {
				cpus = cpus.Add(cpu)
			}
		}
	}
	return cpus
}

// BenchmarkRules plays traces against simple rules that choose the L3 domain of a pod, and reports how many pods are in
// one L3 domain, against the kubelet that aligns to L3 domains.
func BenchmarkRules(b *testing.B) {
	sizes, total := podSizes(), 0
	for _, s := range sizes {
		total += s.weight
	}
	sum := func(each func(free, size int) float64) func(int) float64 {
		return func(free int) (worth float64) {
			for _, s := range sizes {
				worth += each(free, s.cpus) * float64(s.weight) / float64(total)
			}
			return worth
		}
	}
	fits := sum(func(free, size int) float64 { return float64(min(1, free/size)) })
	count := sum(func(free, size int) float64 { return float64(free / size) })
	used := sum(func(free, size int) float64 { return float64(free / size * size) })
	fullest := func(free int) float64 { return float64(free * free) }
	arms := []placeArm{
		berthArm("berth", promiseNone, alloc.Request{}),
		ruleArm("fullest", fullest, false),
		ruleArm("emptiest", func(free int) float64 { return -fullest(free) }, false),
		ruleArm("fits", fits, false), ruleArm("count", count, false), ruleArm("used", used, false),
		ruleArm("fullest, crumbs", fullest, true), ruleArm("fits, crumbs", fits, true), ruleArm("count, crumbs", count, true), ruleArm("used, crumbs", used, true),
	}
	for _, m := range GeneratedMachines() {
		var events [][]traceEvent
		peer := 0
		for seed := range 3 {
			events = append(events, newTrace(uint64(seed+1), m.Topology.Containers().Size(), 20_000))
			c, err := kubeletArm("peer", promiseNone, rival.Kubelet{AlignByUncore: true}).play(b.Context(), m.Topology, events[seed])
			if err != nil {
				b.Fatal(err)
			}
			peer += c.OneL3
		}
		for _, arm := range arms {
			b.Run(m.Name+"/"+arm.name, func(b *testing.B) {
				for b.Loop() {
					var sum PlaceCounts
					for _, e := range events {
						c, err := arm.play(b.Context(), m.Topology, e)
						if err != nil {
							b.Fatal(err)
						}
						sum.OneL3, sum.Admitted, sum.SharedCores = sum.OneL3+c.OneL3, sum.Admitted+c.Admitted, sum.SharedCores+c.SharedCores
						sum.OneNUMA += c.OneNUMA
					}
					b.ReportMetric(0, "ns/op")
					b.ReportMetric(float64(sum.OneL3)/float64(peer), "x-kubelet")
					b.ReportMetric(float64(sum.OneL3)/float64(sum.Admitted), "in-one-L3")
					b.ReportMetric(float64(sum.OneNUMA)/float64(sum.Admitted), "in-one-node")
					b.ReportMetric(float64(sum.SharedCores)/float64(sum.Admitted), "shared")
				}
			})
		}
	}
}
