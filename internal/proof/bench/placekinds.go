package bench

import (
	"errors"
	"strconv"

	"github.com/berth-project/berth/internal/capability/place/alloc"
	"github.com/berth-project/berth/internal/linux/topology"
)

// kind is a kind of request that is timed, in some sizes.
type kind struct {
	name string
	// sizes are the CPU counts of the whole request.
	sizes []int
	// split gives three containers half, a quarter and the remainder of the CPUs.
	split bool
	// near asks for memory, huge pages and a device too.
	near bool
	alloc.Request
}

// plainKind is timed in more sizes, and also on the empty machine.
func plainKind() kind {
	return kind{name: "one container", sizes: []int{1, 2, 4, 8, 16, 32, 64, 128, 200}}
}

// specialKinds returns the other requests that the half full machine can satisfy. The sizes fit in all of its states: a
// NUMA node has 64 CPUs.
func specialKinds() []kind {
	small, all, any4 := []int{4, 8, 16}, []int{4, 16, 64}, []int{4, 16, 64, 200}
	return []kind{
		{name: "three containers", sizes: any4, split: true},
		{name: "memory, huge pages, device", sizes: any4, near: true},
		{name: "memory, huge pages, device, three containers", sizes: any4, split: true, near: true},
		{name: "spread", sizes: any4, Request: alloc.Request{Bind: alloc.SpreadByPCPUs}},
		{name: "least allocated", sizes: any4, Request: alloc.Request{Strategy: alloc.LeastAllocated}},
		{name: "required FullPCPUs", sizes: all, Request: alloc.Request{Bind: alloc.FullPCPUs, BindStrength: alloc.Required}},
		{name: "required PCPULevel", sizes: all, Request: alloc.Request{Exclusive: alloc.PCPULevel, ExclusiveStrength: alloc.Required}},
		{name: "one NUMA node", sizes: small, Request: alloc.Request{NUMA: alloc.SingleNUMANode}},
		{name: "static-burst", sizes: small, Request: alloc.Request{Domain: alloc.OneL3ElseNUMA}},
	}
}

// impossibleKinds returns requests that fail in a state.
func impossibleKinds(state string, t *topology.Topology) []kind {
	all, node := t.Online.Size(), t.Nodes[0].CPUs.Size()
	kinds := []kind{
		{name: "more than is free", sizes: []int{all/2 + 1}},
		{name: "one NUMA node, none is so large", sizes: []int{node + 1}, Request: alloc.Request{NUMA: alloc.SingleNUMANode}},
	}
	if state == stateScattered {
		kinds = append(kinds, kind{
			name: "whole cores, not so many are free", sizes: []int{all / 2},
			Request: alloc.Request{Bind: alloc.FullPCPUs, BindStrength: alloc.Required},
		})
	}
	return kinds
}

// measure times every kind that belongs to the state in each of its sizes.
func (c *clocked) measure(t *topology.Topology) error {
	var errs []error
	met := []kind{plainKind()}
	var impossible []kind
	if c.state != stateEmpty {
		met, impossible = append(met, specialKinds()...), impossibleKinds(c.state, t)
	}
	for _, k := range met {
		for _, n := range k.sizes {
			errs = append(errs, c.time(k, n, 1))
		}
	}
	for _, k := range impossible {
		for _, n := range k.sizes {
			errs = append(errs, c.time(k, n, refusalBatch))
		}
	}
	return errors.Join(errs...)
}

// of returns the request of this kind for a number of CPUs.
func (k kind) of(cpus int) alloc.Request {
	r := k.Request
	r.Wants = wanting(cpus)
	if k.split {
		r.Wants = wanting(cpus/2, cpus/4, cpus-cpus/2-cpus/4)
	}
	return r
}

// amounts returns what a request of this kind needs from its NUMA nodes: 512 MiB of memory a CPU, 2 GiB of huge pages
// and a device, of which the nodes have free. It returns nil if the kind needs only CPUs.
func (k kind) amounts(cpus int, free [][]int64) []alloc.Amount {
	if !k.near {
		return nil
	}
	return []alloc.Amount{
		{Device: true, Want: 1, Free: free[0]},
		{Want: 2, Free: free[1]},
		{Want: int64(cpus+1) / 2, Free: free[2]},
	}
}

func wanting(cpus ...int) []alloc.Want {
	wants := make([]alloc.Want, len(cpus))
	for i, n := range cpus {
		wants[i] = alloc.Want{Name: "c" + strconv.Itoa(i), CPUs: n}
	}
	return wants
}
