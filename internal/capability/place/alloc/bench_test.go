package alloc_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berth-project/berth/internal/capability/place/alloc"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// fragmented makes the machine half full. With pods, many pods of common sizes come and go. With threads, each CPU is
// held with probability one half.
func fragmented(m *alloc.Machine, d *dice, how string) (taken alloc.Taken) {
	half := m.Pinnable().Size() / 2
	if how == "threads" {
		m.Hold(&taken, alloc.Holding{CPUs: drawSubset(d, m.Pinnable(), 2)})
		return taken
	}
	var s alloc.Scratch
	var pods []alloc.Holding
	for round := range 200 {
		r := &alloc.Request{Wants: []alloc.Want{{CPUs: drawOf(d, 1, 2, 2, 3, 4, 4, 6, 8, 8, 16, 32)}}}
		if how == "whole" {
			r.Wants[0].CPUs = drawOf(d, 2, 4, 4, 6, 8, 8, 16, 32)
		}
		if a, no := m.Allocate(&s, &taken, r); no.Code == alloc.Placed {
			pods = append(pods, a.Holding())
		}
		taken = alloc.Taken{}
		d.Shuffle(len(pods), func(i, j int) { pods[i], pods[j] = pods[j], pods[i] })
		for held(pods) > half+half/2*(round%2) {
			pods = pods[1:]
		}
		for _, p := range pods {
			m.Hold(&taken, p)
		}
	}
	for held(pods) > half {
		pods = pods[1:]
	}
	taken = alloc.Taken{}
	for _, p := range pods {
		m.Hold(&taken, p)
	}
	return taken
}

func held(pods []alloc.Holding) int {
	var all cpuset.Set
	for _, p := range pods {
		all = all.Union(p.CPUs)
	}
	return all.Size()
}

// BenchmarkAllocate512 reports the time of single decisions on 512 CPUs. The goals are a p99 of 50 µs up to 64 CPUs and
// of 500 µs for any number. The fastest of three runs of a decision counts, to exclude other programs.
func BenchmarkAllocate512(b *testing.B) {
	m := compile(b, large.topology())
	for _, how := range []string{"empty", "pods", "whole", "threads"} {
		var states []alloc.Taken
		for seed := range 20 {
			var taken alloc.Taken
			if how != "empty" {
				taken = fragmented(m, newDice(uint64(seed)), how)
			}
			states = append(states, taken)
		}
		for _, most := range []int{64, 512} {
			for _, r := range []alloc.Request{{}, {Strategy: alloc.LeastAllocated}, {Bind: alloc.SpreadByPCPUs}, {BindStrength: alloc.Required}, {Domain: alloc.OneL3ElseNUMA}} {
				name := fmt.Sprintf("%s/n<=%d/bind=%d,%d/strategy=%d/domain=%d", how, most, r.Bind, r.BindStrength, r.Strategy, r.Domain)
				b.Run(name, func(b *testing.B) { decisions(b, m, states, most, r) })
			}
		}
	}
}

func decisions(b *testing.B, m *alloc.Machine, states []alloc.Taken, most int, r alloc.Request) {
	b.Helper()
	var s alloc.Scratch
	d := newDice(1)
	times := make([]time.Duration, 0, 4096)
	inexact := 0
	b.ReportAllocs()
	for b.Loop() {
		taken := &states[d.IntN(len(states))]
		n := d.between(1, min(most, m.Pinnable().Difference(taken.CPUs()).Size()))
		if r.BindStrength == alloc.Required {
			n += n % 2
		}
		r.Wants = []alloc.Want{{CPUs: n}}
		var a alloc.Answer
		var no alloc.Refusal
		best := time.Hour
		for range 3 {
			start := time.Now()
			a, no = m.Allocate(&s, taken, &r)
			best = min(best, time.Since(start))
		}
		times = append(times, best)
		if no.Code == alloc.Placed && !a.Exact {
			inexact++
		}
	}
	report(b, times)
	b.ReportMetric(float64(inexact), "inexact")
}

func report(b *testing.B, times []time.Duration) {
	b.Helper()
	slices.Sort(times)
	at := func(q float64) float64 {
		return float64(times[int(math.Ceil(q*float64(len(times))))-1].Nanoseconds()) / 1000
	}
	b.ReportMetric(at(0.5), "p50-µs")
	b.ReportMetric(at(0.99), "p99-µs")
	b.ReportMetric(at(1), "max-µs")
}

// BenchmarkRefuse512 reports the time to refuse an impossible request. The goal is 1 µs.
func BenchmarkRefuse512(b *testing.B) {
	m := compile(b, large.topology())
	states := []alloc.Taken{fragmented(m, newDice(1), "threads")}
	for _, r := range []alloc.Request{
		{Wants: wants(300)},
		{Wants: wants(50), NUMA: alloc.SingleNUMANode},
		{Wants: wants(32), NUMA: alloc.SingleNUMANode, BindStrength: alloc.Required},
		{Wants: wants(64), NUMA: alloc.Restricted, BindStrength: alloc.Required},
		{Wants: wants(50), Domain: alloc.OneL3ElseNUMA},
		{Wants: wants(200), Exclusive: alloc.PCPULevel, ExclusiveStrength: alloc.Required},
		{Wants: wants(200), BindStrength: alloc.Required},
	} {
		var s alloc.Scratch
		_, no := m.Allocate(&s, &states[0], &r)
		b.Run(strings.ReplaceAll(no.String(), " ", "-"), func(b *testing.B) {
			times := make([]time.Duration, 0, 4096)
			for b.Loop() {
				best := time.Hour
				for range 3 {
					start := time.Now()
					m.Allocate(&s, &states[0], &r)
					best = min(best, time.Since(start))
				}
				times = append(times, best)
			}
			report(b, times)
		})
	}
}
