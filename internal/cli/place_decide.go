package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability/place/alloc"
	"github.com/berth-project/berth/internal/capability/place/placement"
	"github.com/berth-project/berth/internal/intent/workload"
	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/scheduler/simulate"
	"github.com/berth-project/berth/internal/value/cpuset"
	"github.com/berth-project/berth/internal/value/unit"
)

// milli is one CPU in the unit of pod requests.
const milli = 1000

// placing is one container to place, and the machine.
type placing struct {
	machine *alloc.Machine
	taken   cpuset.Set
	pinning workload.Pinning
}

// request converts the flags to the request of a pod with one container.
func (f *placeFlags) request() (placing, error) {
	if f.cpus < 1 || f.cpus > cpuset.Max {
		return placing{}, usageError(fmt.Errorf("--cpus %d: allowed: 1 to %d", f.cpus, cpuset.Max))
	}
	amount := int64(f.cpus) * milli
	w := workload.Pinning{
		Wanted: true, Bind: v1alpha1.CPUBindFullPCPUs, BindRequired: f.required, ExclusiveRequired: f.required, Scheduled: amount,
		Pinned: []workload.PinnedContainer{{Name: "cpus", CPUs: f.cpus, Limit: amount, Request: amount}},
	}
	p := placing{}
	var errs [4]error
	var policy v1alpha1.CPUBindPolicy
	policy, errs[0] = choice("policy", f.policy, texts(bindPolicies()), bindPolicies())
	switch policy {
	case v1alpha1.CPUBindSpreadByPCPUs:
		w.Bind = v1alpha1.CPUBindSpreadByPCPUs
	case v1alpha1.CPUBindConstrainedBurst:
		w.StaticBurst, w.BindRequired = true, false // an odd count is no reason to refuse
	}
	w.Exclusive, errs[1] = choice("exclusive", f.exclusive, texts(v1alpha1.CPUExclusivePolicies()), v1alpha1.CPUExclusivePolicies())
	w.NUMA, errs[2] = choice("numa-policy", f.numa, texts(v1alpha1.NUMATopologyPolicies()), v1alpha1.NUMATopologyPolicies())
	w.Strategy, errs[3] = choice("strategy", f.strategy, texts(v1alpha1.NUMAAllocateStrategies()), v1alpha1.NUMAAllocateStrategies())
	p.pinning = w
	return p, errors.Join(errs[:]...)
}

// choose returns the chosen CPUs. If a preferred bound on NUMA nodes or domains cannot be met, it drops the bound. The
// allocator already tries the fewest nodes and domains first.
func (f *placeFlags) choose(p placing) (*placedCPUs, error) {
	placed, refused := f.decide(p)
	if placed != nil {
		return placed, nil
	}
	if !f.required {
		for _, less := range f.lesser(p) {
			if placed, refused = f.decide(less.placing); placed != nil {
				text := strings.Join(less.without, " with ") + " cannot be had and was only preferred"
				placed.Why = append(placed.Why, simulate.Reason{Term: "policy", Text: text})
				return placed, nil
			}
		}
	}
	return nil, refused
}

// lesser is a request without some of its preferences.
type lesser struct {
	placing
	without []string
}

// lesser returns the fallback requests. Requests that give up least come first.
func (f *placeFlags) lesser(p placing) []lesser {
	anywhere := p
	anywhere.pinning.NUMA = v1alpha1.NUMABestEffort
	numa := lesser{anywhere, []string{"--numa-policy " + string(p.pinning.NUMA)}}
	wide := p
	wide.pinning.StaticBurst = false
	domain := lesser{wide, []string{"--policy " + string(v1alpha1.CPUBindConstrainedBurst)}}
	both := lesser{anywhere, append(domain.without[:1:1], numa.without...)}
	both.pinning.StaticBurst = false
	bound := p.pinning.NUMA != v1alpha1.NUMABestEffort
	switch {
	case bound && p.pinning.StaticBurst:
		return []lesser{numa, domain, both}
	case bound:
		return []lesser{numa}
	case p.pinning.StaticBurst:
		return []lesser{domain}
	default:
		return nil
	}
}

// decide decides as the scheduler does, for a node on which only the CPUs of --taken are in use.
func (f *placeFlags) decide(p placing) (*placedCPUs, error) {
	ask := placement.AskOf(p.pinning)
	ask.Request.EfficiencyCores = f.efficiency
	t := p.machine.Topology()
	pool := t.Containers()
	n := placement.Node{Machine: p.machine, AllocatableMilli: int64(pool.Size()) * milli}
	o := placement.Occupancy{ExtraMilli: int64(p.taken.Intersect(pool).Size()) * milli}
	if !p.taken.IsEmpty() {
		p.machine.Hold(&o.Taken, alloc.Holding{CPUs: p.taken})
	}
	var scratch alloc.Scratch
	var answer alloc.Answer
	if f.whole {
		whole, no := p.machine.Allocate(&scratch, &o.Taken, &ask.Request)
		if no.Code != alloc.Placed {
			return nil, refusedPlace(n, &o, placement.Refusal{Code: placement.Allocation, Alloc: no})
		}
		answer = whole
	} else {
		decision, no := placement.Decide(&scratch, n, &o, &ask)
		if !no.OK() {
			return nil, refusedPlace(n, &o, no)
		}
		answer = decision.Answer
	}
	placed := placedFrom(p.machine, &answer)
	placed.Why = append(simulate.Reasons(n, &ask, &answer), simulate.Remote(t, answer.CPUs)...)
	placed.open, placed.taken = p.machine.Pinnable(), p.taken
	if !f.efficiency {
		placed.open = placed.open.Difference(t.Efficiency())
	}
	return placed, nil
}

// refusedPlace explains a refusal. There is no pod here, and only the CPUs of --taken are promised.
func refusedPlace(n placement.Node, o *placement.Occupancy, no placement.Refusal) error {
	switch no.Code {
	case placement.Promised, placement.TooLarge:
		return fmt.Errorf("does not fit: fewer than %s: there are %d", unit.Count(int(no.Want/milli), "free CPU"), no.Have/milli)
	case placement.SharedPool:
		return fmt.Errorf("does not fit: %s (--whole-machine gives out the last core too)", simulate.Detail(n, o, no))
	default:
		return fmt.Errorf("does not fit: %s", simulate.Detail(n, o, no))
	}
}

func placedFrom(m *alloc.Machine, a *alloc.Answer) *placedCPUs {
	t := m.Topology()
	return &placedCPUs{
		CPUs: a.CPUs, LeftEmpty: simulate.LeftEmpty(m, a), Mems: memoryNodes(t, a.CPUs), machine: t,
		NUMANodes: slices.AppendSeq([]int{}, t.NodesOf(a.CPUs).All()), L3: t.L3sOf(a.CPUs), SplitCores: len(t.Partly(a.CPUs)),
	}
}

// memoryNodes returns the NUMA nodes of the CPUs that have memory. If none of them has memory, it returns all nodes
// with memory. If the machine's memory is unknown, it returns the nodes of the CPUs.
func memoryNodes(t *topology.Topology, cpus cpuset.Set) cpuset.Set {
	all := t.MemoryNodes()
	if local := t.NodesOf(cpus).Intersect(all); !local.IsEmpty() {
		return local
	}
	return all
}
