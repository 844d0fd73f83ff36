package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/berth-project/berth/internal/capability/place/alloc"
	"github.com/berth-project/berth/internal/linux/kernel"
	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/proof/load"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// LatencyLine is how long decisions of one kind take. A quantile is nil if the number of calls does not support it.
type LatencyLine struct {
	State   string `json:"state"`
	Request string `json:"request"`
	CPUs    int    `json:"cpus"`
	// Refused is true if the request cannot be satisfied.
	Refused bool     `json:"refused"`
	Calls   int      `json:"calls"`
	P50     *float64 `json:"p50Micros"`
	P99     *float64 `json:"p99Micros"`
	// Max is the longest call. On a machine with other work it is mostly the length of an interruption.
	Max float64 `json:"maxMicros"`
	// P99CPU is the p99 of the thread's CPU time, without interruptions.
	P99CPU *float64 `json:"p99CPUMicros"`
}

// The states of the machine in which decisions are timed.
const (
	stateEmpty      = "empty"
	stateDepartures = "half full after departures"
	stateScattered  = "half full, threads scattered"
)

const (
	// callsPerState spreads the calls over different occupancies.
	callsPerState = 10
	// refusalBatch is how many refusals are timed together: a single refusal is as short as reading the clock.
	refusalBatch = 64
)

// latency times decisions on the largest generated machine.
func (o PlaceOptions) latency(ctx context.Context) ([]LatencyLine, error) {
	generated := GeneratedMachines()
	large := generated[len(generated)-1].Topology
	m, err := alloc.Compile(large)
	if err != nil {
		return nil, fmt.Errorf("bench place: %w", err)
	}
	// CPU time is measured per thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	c := &clocked{machine: m, raw: [][]string{{"state", "request", "cpus", "nanoseconds", "cpu_nanoseconds"}}}
	random, amounts := rand.New(rand.NewPCG(o.Seed, 5)), rand.New(rand.NewPCG(o.Seed, 6))
	states := max(1, o.Calls/callsPerState)
	for _, state := range []string{stateEmpty, stateDepartures, stateScattered} {
		o.Progress("decisions, " + state)
		c.state, c.taken, c.free = state, nil, nil
		for range states {
			if err := ctx.Err(); err != nil {
				return nil, fmt.Errorf("bench place: %w", err)
			}
			var taken alloc.Taken
			m.Hold(&taken, alloc.Holding{CPUs: occupied(state, m, large, random)})
			c.taken, c.free = append(c.taken, taken), append(c.free, freeAmounts(state, large, amounts))
		}
		if err := c.measure(large); err != nil {
			return nil, fmt.Errorf("bench place: %w", err)
		}
	}
	return c.lines, WriteRows(o.Out, "decisions.csv", c.raw)
}

// occupied draws the held CPUs. After departures: the allocator fills the machine with pods of the trace's sizes, and
// random pods leave until half of the CPUs are free. Scattered: a random half of the CPUs.
func occupied(state string, m *alloc.Machine, t *topology.Topology, random *rand.Rand) cpuset.Set {
	all := slices.Collect(t.Online.All())
	half := len(all) / 2
	var held cpuset.Set
	switch state {
	case stateScattered:
		random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		for _, cpu := range all[:half] {
			held = held.Add(cpu)
		}
	case stateDepartures:
		pods := fill(m, random)
		random.Shuffle(len(pods), func(i, j int) { pods[i], pods[j] = pods[j], pods[i] })
		for _, cpus := range pods {
			if held.Size()+cpus.Size() <= half {
				held = held.Union(cpus)
			}
		}
	}
	return held
}

// fill places pods of the trace's sizes until one does not fit.
func fill(m *alloc.Machine, random *rand.Rand) []cpuset.Set {
	var pods []cpuset.Set
	var taken alloc.Taken
	scratch := &alloc.Scratch{}
	sizes := podSizes()
	for {
		request := alloc.Request{Wants: []alloc.Want{{Name: "main", CPUs: drawSize(random, sizes, 100)}}}
		answer, refusal := m.Allocate(scratch, &taken, &request)
		if refusal.Code != alloc.Placed {
			return pods
		}
		pods = append(pods, answer.CPUs)
		m.Hold(&taken, alloc.Holding{CPUs: answer.CPUs})
	}
}

// freeAmounts draws what each NUMA node has free: of 8 devices, of 32 GiB of huge pages and of 32 GiB of other memory. On
// the empty machine that is all.
func freeAmounts(state string, t *topology.Topology, random *rand.Rand) [][]int64 {
	var free [][]int64
	for _, most := range []int64{8, 32, 32} {
		var of []int64
		for range t.Nodes {
			n := most
			if state != stateEmpty {
				n = random.Int64N(most + 1)
			}
			of = append(of, n)
		}
		free = append(free, of)
	}
	return free
}

// clocked times calls in its states.
type clocked struct {
	machine *alloc.Machine
	state   string
	taken   []alloc.Taken
	// free has for each state what each NUMA node has free, and asks what the request in each state needs of it.
	free    [][][]int64
	asks    [][]alloc.Amount
	scratch alloc.Scratch
	lines   []LatencyLine
	raw     [][]string
}

// time measures one request in every state. Calls go from state to state, as the scheduler goes from node to node: a
// repeated call would find its data in the processor's caches. A request that can be satisfied (batch 1) is timed call
// by call, other requests in batches: a sample is then the mean of a batch. A call with the opposite outcome is no
// sample.
func (c *clocked) time(k kind, cpus, batch int) error {
	r := k.of(cpus)
	c.asks = c.asks[:0]
	for _, free := range c.free {
		c.asks = append(c.asks, k.amounts(cpus, free))
	}
	for i := range min(len(c.taken), callsPerState) {
		r.Amounts = c.asks[i]
		c.machine.Allocate(&c.scratch, &c.taken[i], &r) // Let the scratch grow.
	}
	most := len(c.taken) * callsPerState
	calls, spent := make([]load.Sample, 0, most), make([]load.Sample, 0, most)
	runtime.GC()
	for range callsPerState {
		for first := range c.taken {
			wall, cpu, refused, err := c.call(first, &r, batch)
			if err != nil {
				return err
			}
			if refused == 0 && batch == 1 || refused == batch && batch > 1 {
				calls, spent = append(calls, load.Sample{Latency: wall}), append(spent, load.Sample{Latency: cpu})
			}
		}
	}
	c.add(LatencyLine{State: c.state, Request: k.name, CPUs: cpus, Refused: batch > 1, Calls: len(calls)}, calls, spent)
	return nil
}

// call makes a batch of calls, each in the next state, and returns the mean times and the number of refusals.
func (c *clocked) call(first int, r *alloc.Request, batch int) (wall, cpu time.Duration, refused int, err error) {
	before, err := kernel.ThreadCPUTime()
	if err != nil {
		return 0, 0, 0, err
	}
	begin := time.Now()
	for i := range batch {
		state := (first + i) % len(c.taken)
		r.Amounts = c.asks[state]
		if _, refusal := c.machine.Allocate(&c.scratch, &c.taken[state], r); refusal.Code != alloc.Placed {
			refused++
		}
	}
	wall = time.Since(begin)
	after, err := kernel.ThreadCPUTime()
	return wall / time.Duration(batch), (after - before) / time.Duration(batch), refused, err
}

// add summarizes the calls.
func (c *clocked) add(line LatencyLine, calls, spent []load.Sample) {
	sorted := load.Sorted(calls)
	line.P50, line.P99 = quantile(sorted, 0.5, time.Microsecond), quantile(sorted, 0.99, time.Microsecond)
	line.P99CPU = quantile(load.Sorted(spent), 0.99, time.Microsecond)
	if len(sorted) > 0 {
		line.Max = float64(sorted[len(sorted)-1]) / float64(time.Microsecond)
	}
	c.lines = append(c.lines, line)
	for i := range calls {
		c.raw = append(c.raw, []string{
			line.State, line.Request, strconv.Itoa(line.CPUs),
			strconv.FormatInt(int64(calls[i].Latency), 10), strconv.FormatInt(int64(spent[i].Latency), 10),
		})
	}
}
