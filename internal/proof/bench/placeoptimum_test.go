package bench

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// littleMachine is a machine so small that the best allocator can be computed. It is the best of the allocators that
// admit every pod for which there are enough CPUs, and that move none. They know the arrival rate and the mean lifetime
// of each size, but not when a pod ends.
//
// As in the traces, arrivals are Poisson and lifetimes exponential with mean 1. The behavior of such an allocator is
// therefore a Markov decision process whose states are all possible positions of pods. No rule that also uses the past
// or chance is better than the best allocator of this process.
type littleMachine struct {
	domains, cores, threads int // domains, cores of each, threads of each
	sizes                   []podSize
	load                    float64 // offered, in machines
}

// lying is the position of a pod's threads, with four bits per core. The cores of a domain are adjacent.
type lying uint64

const coreBits, coreMask = 4, 15

func (l lying) on(core int) int { return int(l>>(coreBits*core)) & coreMask }

func (l lying) size(cores int) (n int) {
	for c := range cores {
		n += l.on(c)
	}
	return n
}

func (m *littleMachine) all() int { return m.domains * m.cores }

func (m *littleMachine) cpus() int { return m.all() * m.threads }

// inOne reports whether a pod is in one domain.
func (m *littleMachine) inOne(l lying) bool {
	bits := coreBits * m.cores
	for d := range m.domains {
		if l&^((1<<bits-1)<<(bits*d)) == 0 {
			return true
		}
	}
	return false
}

// shared returns how many of a pod's cores have threads of another pod.
func (m *littleMachine) shared(others []lying, l lying) (n int) {
	for c := range m.all() {
		if l.on(c) > 0 && slices.ContainsFunc(others, func(o lying) bool { return o.on(c) > 0 }) {
			n++
		}
	}
	return n
}

// canonical renumbers equivalent cores and domains by their content, and sorts the pods. States that differ only in
// numbers mostly become one state. Remaining duplicates have the same value.
func (m *littleMachine) canonical(pods []lying) []lying {
	type place struct {
		core int
		mark uint64
	}
	domains := make([][]place, m.domains)
	marks := make([]uint64, m.domains)
	for d := range domains {
		for i := range m.cores {
			c := d*m.cores + i
			p := place{core: c}
			for _, l := range pods {
				if l.on(c) > 0 {
					p.mark += mixed(uint64(l.on(c)), uint64(l.size(m.all())), m.inOne(l))
				}
			}
			domains[d] = append(domains[d], p)
		}
		slices.SortFunc(domains[d], func(a, b place) int { return cmp.Compare(a.mark, b.mark) })
		for _, p := range domains[d] {
			marks[d] = marks[d]*0x9E3779B97F4A7C15 + p.mark
		}
	}
	order := make([]int, m.domains)
	for d := range order {
		order[d] = d
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(marks[a], marks[b]) })
	out := make([]lying, len(pods))
	at := 0
	for _, d := range order {
		for _, p := range domains[d] {
			for i, l := range pods {
				out[i] |= lying(l.on(p.core)) << (coreBits * at)
			}
			at++
		}
	}
	slices.Sort(out)
	return out
}

func mixed(threads, size uint64, inOne bool) uint64 {
	x := threads<<8 | size<<1
	if inOne {
		x |= 1
	}
	x *= 0xBF58476D1CE4E5B9
	x ^= x >> 29
	x *= 0x94D049BB133111EB
	return x ^ x>>32
}

// ways calls each with every position of a pod of n CPUs on the free threads of the cores.
func (m *littleMachine) ways(free []int, n int, each func(lying)) {
	var walk func(core, left int, l lying)
	walk = func(core, left int, l lying) {
		if left == 0 {
			each(l)
			return
		}
		if core == len(free) {
			return
		}
		for k := range min(free[core], left) + 1 {
			walk(core+1, left-k, l|lying(k)<<(coreBits*core))
		}
	}
	walk(0, n, 0)
}

// choice is one way to place a pod: its worth and the state after it.
type choice struct {
	next        int32
	one, shared int8
}

// littleState has the choices for each size, none if there are too few CPUs, and the states after each pod's end.
type littleState struct {
	choices [][]choice
	ends    []int32
}

// states returns all states that some allocator can reach, the empty machine first.
func (m *littleMachine) states() []littleState {
	index := map[string]int32{}
	var pods [][]lying
	number := func(list []lying) int32 {
		list = m.canonical(list)
		key := make([]byte, 0, 8*len(list))
		for _, l := range list {
			key = binary.LittleEndian.AppendUint64(key, uint64(l))
		}
		i, known := index[string(key)]
		if !known {
			i = int32(len(pods))
			index[string(key)] = i
			pods = append(pods, list)
		}
		return i
	}
	number(nil)
	var states []littleState
	for i := 0; i < len(pods); i++ {
		list := pods[i]
		free := make([]int, m.all())
		for c := range free {
			free[c] = m.threads
			for _, l := range list {
				free[c] -= l.on(c)
			}
		}
		s := littleState{choices: make([][]choice, len(m.sizes))}
		for k, size := range m.sizes {
			seen := map[choice]bool{}
			m.ways(free, size.cpus, func(l lying) {
				one := choice{next: number(append(slices.Clone(list), l)), shared: int8(m.shared(list, l))}
				if m.inOne(l) {
					one.one = 1
				}
				if !seen[one] {
					seen[one] = true
					s.choices[k] = append(s.choices[k], one)
				}
			})
		}
		for j := range list {
			s.ends = append(s.ends, number(slices.Delete(slices.Clone(list), j, j+1)))
		}
		states = append(states, s)
	}
	return states
}

// arrivals returns the number of pods per mean lifetime, and the share of each size.
func (m *littleMachine) arrivals() (rate float64, share []float64) {
	total, mean := 0, 0.0
	for _, s := range m.sizes {
		total += s.weight
		mean += float64(s.cpus * s.weight)
	}
	for _, s := range m.sizes {
		share = append(share, float64(s.weight)/float64(total))
	}
	return m.load * float64(m.cpus()) / (mean / float64(total)), share
}

// steps returns the number of steps of the process per mean lifetime. A step is an arrival, or the end of one of as
// many pods as there are CPUs. The end of a missing pod changes nothing.
func (m *littleMachine) steps() float64 {
	rate, _ := m.arrivals()
	return rate + float64(m.cpus())
}

// gain returns bounds of the largest long-term worth per step of any allocator. After each step of value iteration, it
// lies between the smallest and the largest growth of a state's value. The bounds differ by less than within per
// arriving pod.
func (m *littleMachine) gain(states []littleState, within float64, worth func(choice) float64) (low, high float64) {
	rate, share := m.arrivals()
	total := m.steps()
	value, next := make([]float64, len(states)), make([]float64, len(states))
	for {
		low, high = math.Inf(1), math.Inf(-1)
		for i, s := range states {
			sum := (float64(m.cpus()) - float64(len(s.ends))) * value[i]
			for k, list := range s.choices {
				best := value[i]
				if len(list) > 0 {
					best = math.Inf(-1)
					for _, c := range list {
						best = max(best, worth(c)+value[c.next])
					}
				}
				sum += rate * share[k] * best
			}
			for _, after := range s.ends {
				sum += value[after]
			}
			next[i] = sum / total
			low, high = min(low, next[i]-value[i]), max(high, next[i]-value[i])
		}
		value, next = next, value
		if high-low < within*rate/total {
			return low, high
		}
	}
}

// trace draws events with the distribution of the process.
func (m *littleMachine) trace(seed uint64, events int) []traceEvent {
	random := rand.New(rand.NewPCG(seed, 4))
	rate, _ := m.arrivals()
	total := 0
	for _, s := range m.sizes {
		total += s.weight
	}
	var list []traceEvent
	now := 0.0
	for pod := range events / 2 {
		now += random.ExpFloat64() / rate
		cpus := drawSize(random, m.sizes, total)
		list = append(list, traceEvent{at: now, pod: pod, cpus: cpus},
			traceEvent{at: now + random.ExpFloat64(), pod: pod, cpus: cpus, gone: true})
	}
	slices.SortStableFunc(list, func(a, b traceEvent) int { return cmp.Compare(a.at, b.at) })
	return list
}

// share returns the share of admitted pods that an arm has in one domain, its shared cores per pod, and the admitted
// pods per mean lifetime.
func (m *littleMachine) share(t testing.TB, arm string, events []traceEvent) (one, shared, admitted float64) {
	t.Helper()
	cores := *m
	if m.cores == 1 { // the process sees single units, but the arms know cores of two threads
		cores.cores, cores.threads = m.threads/2, 2
	}
	topo := shape{1, 1, cores.domains, cores.cores, cores.threads}.topology()
	all := placeArms()
	a := all[slices.IndexFunc(all, func(a placeArm) bool { return a.name == arm })]
	c, err := a.play(t.Context(), topo, events)
	if err != nil {
		t.Fatal(err)
	}
	n := float64(c.Admitted)
	return float64(c.OneL3) / n, float64(c.SharedCores) / n, n / events[len(events)-1].at
}

// most returns the largest possible share of admitted pods in one domain. With a price on shared cores, it subtracts
// that price for each shared core per pod.
func (m *littleMachine) most(states []littleState, price float64) float64 {
	admitted, _ := m.gain(states, 1e-6, func(choice) float64 { return 1 })
	_, high := m.gain(states, 1e-4, func(c choice) float64 { return float64(c.one) - price*float64(c.shared) })
	return high / admitted
}

// No arm that admits every fitting pod has more pods in one domain than the best allocator. Berth is within a hundredth
// of it. The process admits as many pods as a trace.
func TestNoAllocatorBeatsTheOptimum(t *testing.T) {
	m := littleMachines()[0]
	states, events := m.states(), m.trace(1, 60_000)
	admitted, _ := m.gain(states, 1e-6, func(choice) float64 { return 1 })
	most := m.most(states, 0)
	for _, a := range placeArms() {
		if a.promise != promiseNone {
			continue
		}
		one, _, rate := m.share(t, a.name, events)
		if want := admitted * m.steps(); math.Abs(rate/want-1) > 0.02 {
			t.Errorf("%s admits %.3f pods a lifetime, the process %.3f", a.name, rate, want)
		}
		if one > most+0.005 { // a trace is a sample
			t.Errorf("%s has %.4f in one domain, the most there can be is %.4f", a.name, one, most)
		}
		if a.berth && one < most-0.01 {
			t.Errorf("%s has %.4f in one domain, the best allocator %.4f", a.name, one, most)
		}
	}
}

// littleMachines returns machines with mostly small pods and some that fit into no domain, as in the traces. The last
// one is the first with cores of two threads, so that shared cores matter too.
func littleMachines() []littleMachine {
	many := []podSize{{1, 30}, {2, 30}, {3, 20}, {4, 15}, {6, 5}}
	some := []podSize{{1, 40}, {2, 35}, {3, 12}, {4, 10}, {6, 3}}
	whole := []podSize{{1, 40}, {2, 28}, {3, 9}, {4, 12}, {6, 3}, {8, 5}, {12, 1}, {16, 2}}
	return []littleMachine{
		{3, 1, 4, many, 1.3}, {3, 1, 4, some, 1}, {4, 1, 4, some, 1}, {2, 1, 8, whole, 1}, {2, 1, 8, whole, 1.3}, {3, 2, 2, many, 1.3},
	}
}

// BenchmarkOptimum reports the percentage of admitted pods in one domain, for the best allocator, Berth, and the
// kubelet with alignment to domains. For a machine with cores it also reports the best percentage without more shared
// cores than the peer that shares least.
func BenchmarkOptimum(b *testing.B) {
	const events = 400_000
	for _, m := range littleMachines() {
		b.Run(fmt.Sprintf("%dx%dx%d/%.1f/%d", m.domains, m.cores, m.threads, m.load, m.sizes[0].weight), func(b *testing.B) {
			for b.Loop() {
				states, trace := m.states(), m.trace(1, events)
				most := m.most(states, 0)
				berth, shared, _ := m.share(b, "berth", trace)
				uncore, least, _ := m.share(b, "kubelet uncore", trace)
				b.ReportMetric(float64(len(states)), "states")
				b.ReportMetric(100*most, "most-%")
				b.ReportMetric(100*berth, "berth-%")
				b.ReportMetric(100*uncore, "uncore-%")
				b.ReportMetric(most/uncore, "most/uncore")
				if m.cores == 1 {
					continue
				}
				for _, peer := range []string{"kubelet", "koordinator", "koordinator most"} {
					_, cores, _ := m.share(b, peer, trace)
					least = min(least, cores)
				}
				for _, price := range []float64{0.05, 0.1, 0.2, 0.3, 0.5, 1, 2} {
					most = min(most, m.most(states, price)+price*least)
				}
				b.ReportMetric(shared, "berth-shared")
				b.ReportMetric(least, "least-shared")
				b.ReportMetric(100*most, "most-%-at-least-shared")
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}
