package view

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/berth-project/berth/internal/capability"
	"github.com/berth-project/berth/internal/plan"
	"github.com/berth-project/berth/internal/topology"
	"github.com/berth-project/berth/internal/unit"
)

// Format is the version of the JSON. A field that is added does not change it.
const Format = 1

// View is one moment of a node.
type View struct {
	Format int `json:"v"`
	// Version is the agent's, At when it was asked.
	Version string    `json:"version"`
	At      time.Time `json:"at"`
	// Machine is nil while it is not known.
	Machine *topology.Topology `json:"machine,omitempty"`
	// CPUs are those that are online, by number. LoadSeconds is over how long their load was
	// measured, 0 where it was not.
	CPUs        []CPU   `json:"cpus"`
	LoadSeconds float64 `json:"loadSeconds"`
	// Pools are sets of CPUs by what these are for.
	Pools []capability.Pool `json:"pools"`
	// Obstacle is why no CPU set is set on this node, empty where they are.
	Obstacle string `json:"obstacle,omitempty"`
	// Workloads are sorted by name.
	Workloads []Workload `json:"workloads"`
	Problems  []string   `json:"problems"`
	Changes   []Change   `json:"changes"`
	// Events are the last ones, the oldest first.
	Events []Event `json:"events"`
	// Node is what the capabilities report of the node, by their keys.
	Node capability.Sections `json:"node"`
}

// CPU is one CPU.
type CPU struct {
	ID int `json:"id"`
	// Class is the name of the first pool that has it, empty for none; Holder is the workload
	// that has it for itself.
	Class  string `json:"class,omitempty"`
	Holder string `json:"holder,omitempty"`
	// Load is how busy it was, 0 to 1, and -1 where that is not known.
	Load float64 `json:"load"`
}

// Workload is a container, a workload of a host without Kubernetes, or a group that shrinks to
// the shared pool. What is nil was not reported.
type Workload struct {
	Name   string              `json:"name"`
	Status *Status             `json:"status,omitempty"`
	CPUs   *capability.Holding `json:"cpus,omitempty"`
	Quota  *capability.Quota   `json:"quota,omitempty"`
	// Throttling is that of a workload without Quota, which did not ask for burst.
	Throttling *Throttling `json:"throttling,omitempty"`
}

// Change is a value on the host that Berth wrote.
type Change struct {
	Object string `json:"object"`
	Knob   string `json:"knob"`
	// Original is the value before Berth's first write, Written the last one of Berth's.
	Original plan.Value `json:"original"`
	Written  plan.Value `json:"written"`
	Owner    plan.Owner `json:"owner"`
	Workload string     `json:"workload,omitempty"`
	Why      string     `json:"why"`
	Since    time.Time  `json:"since"`
	Writes   int        `json:"writes"`
}

// Facts are what a View is made of: a copy that no other code changes.
type Facts struct {
	Version string
	At      time.Time
	Report  Report
	Changes []Change
	Events  []Event
	// Throttling is by workload.
	Throttling map[string]*Throttling
	// Loads are by the number of the CPU, as Loads returns them, over LoadSeconds.
	Loads       []float64
	LoadSeconds float64
}

// Of joins facts into a View.
func Of(f Facts) *View {
	shown := f.Report.Shown
	return &View{
		Format: Format, Version: f.Version, At: f.At, Machine: shown.Machine,
		CPUs: cpusOf(shown, f.Loads), LoadSeconds: f.LoadSeconds,
		Pools: full(shown.Pools), Obstacle: shown.Obstacle,
		Workloads: workloadsOf(f), Problems: full(f.Report.Problems), Changes: full(f.Changes), Events: full(f.Events),
		Node: f.Report.Node,
	}
}

// full returns a list that is not nil: JSON has an empty one and no null.
func full[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// Statuses are the workloads of which capabilities report more than their CPUs, in their order.
func (v *View) Statuses() []Status {
	all := []Status{}
	for _, w := range v.Workloads {
		if w.Status != nil {
			all = append(all, *w.Status)
		}
	}
	return all
}

// cpusOf says of each CPU of the machine what it is, who has it and how busy it is.
func cpusOf(shown capability.Shown, loads []float64) []CPU {
	cpus := []CPU{}
	if shown.Machine == nil {
		return cpus
	}
	at := map[int]int{}
	for id := range shown.Machine.Online.All() {
		one := CPU{ID: id, Load: -1}
		if i := slices.IndexFunc(shown.Pools, func(p capability.Pool) bool { return p.CPUs.Contains(id) }); i >= 0 {
			one.Class = shown.Pools[i].Name
		}
		if id < len(loads) {
			one.Load = loads[id]
		}
		at[id] = len(cpus)
		cpus = append(cpus, one)
	}
	for _, h := range shown.Holdings {
		if !h.Exclusive {
			continue
		}
		for id := range h.CPUs.Difference(h.Borrowed).All() {
			if i, online := at[id]; online {
				cpus[i].Holder = h.Workload
			}
		}
	}
	return cpus
}

// workloadsOf puts together by name what is known of the workloads.
func workloadsOf(f Facts) []Workload {
	r := f.Report
	all, at := make([]Workload, 0, len(r.Shown.Holdings)), map[string]int{}
	of := func(name string) *Workload {
		i, known := at[name]
		if !known {
			i = len(all)
			at[name], all = i, append(all, Workload{Name: name})
		}
		return &all[i]
	}
	for i := range r.Workloads {
		of(r.Workloads[i].Name).Status = &r.Workloads[i]
	}
	for i := range r.Shown.Holdings {
		of(r.Shown.Holdings[i].Workload).CPUs = &r.Shown.Holdings[i]
	}
	for i := range r.Shown.Quotas {
		of(r.Shown.Quotas[i].Workload).Quota = &r.Shown.Quotas[i]
	}
	for name, t := range f.Throttling {
		of(name).Throttling = t
	}
	slices.SortStableFunc(all, func(a, b Workload) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// Loads says how busy each CPU was between two readings of its times, 0 to 1 in thousandths, by
// its number. It is -1 where that is not known: the CPU was offline, or no time passed.
func Loads(before, now []unit.CPUSpent) []float64 {
	loads := make([]float64, len(now))
	for i, n := range now {
		loads[i] = -1
		if i >= len(before) {
			continue
		}
		b := before[i]
		busy, idle := n.Busy.Since(b.Busy), n.Idle.Since(b.Idle)
		if total := busy + idle + n.Steal.Since(b.Steal); busy >= 0 && idle >= 0 && total > 0 {
			loads[i] = math.Round(1000*min(float64(busy)/float64(total), 1)) / 1000
		}
	}
	return loads
}
