package view

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/berth-project/berth/internal/capability"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/value/unit"
)

// Format is the version of the JSON. A new field does not change it.
const Format = 1

// View is one moment of a node.
type View struct {
	Format int `json:"v"`
	// Version is the agent's version; At is the time of the view.
	Version string    `json:"version"`
	At      time.Time `json:"at"`
	// Machine is nil while the machine is unknown.
	Machine *topology.Topology `json:"machine,omitempty"`
	// CPUs are the online CPUs, by number. LoadSeconds is the time over which their load was measured, 0 if it was not.
	CPUs        []CPU   `json:"cpus"`
	LoadSeconds float64 `json:"loadSeconds"`
	// Pools are sets of CPUs by purpose.
	Pools []capability.Pool `json:"pools"`
	// Obstacle is why Berth sets no CPU set on this node, empty if it does.
	Obstacle string `json:"obstacle,omitempty"`
	// Workloads are sorted by name.
	Workloads []Workload `json:"workloads"`
	Problems  []string   `json:"problems"`
	// Changes are sorted by object and knob.
	Changes []Change `json:"changes"`
	// Events are the last events, the oldest first.
	Events []Event `json:"events"`
	// Node is what the capabilities report about the node, by their keys.
	Node capability.Sections `json:"node"`
}

// CPU is one CPU.
type CPU struct {
	ID int `json:"id"`
	// Class is the name of the first pool that has the CPU, empty for none. Holder is the workload that has the CPU
	// exclusively.
	Class  string `json:"class,omitempty"`
	Holder string `json:"holder,omitempty"`
	// Load is the busy share of the CPU, 0 to 1, or -1 if it is unknown.
	Load float64 `json:"load"`
}

// Workload is a container, a workload of a host without Kubernetes, a group whose CPUs shrink to the shared pool, or a
// service of the host that only its quota throttles, named by its group. A nil field was not reported.
type Workload struct {
	Name   string              `json:"name"`
	Status *Status             `json:"status,omitempty"`
	CPUs   *capability.Holding `json:"cpus,omitempty"`
	Quota  *capability.Quota   `json:"quota,omitempty"`
	// Throttling is for a workload without Quota, which did not ask for burst.
	Throttling *Throttling `json:"throttling,omitempty"`
}

// Change is a value on the host that Berth wrote.
type Change struct {
	Object string `json:"object"`
	Knob   string `json:"knob"`
	// Original is the value before Berth's first write; Written is its last write.
	Original plan.Value `json:"original"`
	Written  plan.Value `json:"written"`
	Owner    plan.Owner `json:"owner"`
	Workload string     `json:"workload,omitempty"`
	Why      string     `json:"why"`
	Since    time.Time  `json:"since"`
	Writes   int        `json:"writes"`
}

// place is the name of a Change in a View.
func (c *Change) place() [2]string { return [2]string{c.Object, c.Knob} }

// byPlace is the order of Changes in a View.
func byPlace(a, b Change) int {
	return cmp.Or(strings.Compare(a.Object, b.Object), strings.Compare(a.Knob, b.Knob))
}

// byName is the order of Workloads in a View.
func byName(a, b Workload) int { return strings.Compare(a.Name, b.Name) }

// Facts are the input of a View. No code changes them, and Views share parts of them.
type Facts struct {
	Version string
	At      time.Time
	Report  Report
	// Changes are in any order; InOrder returns them in that of a View.
	Changes []Change
	Events  []Event
	// Throttling is keyed by workload.
	Throttling map[string]*Throttling
	// Loads are indexed by CPU number, as Loads returns them, over LoadSeconds.
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
		Workloads: workloadsOf(f), Problems: full(f.Report.Problems), Events: full(f.Events), Node: f.Report.Node,
		Changes: full(InOrder(f.Changes)),
	}
}

// InOrder returns Changes in the order of a View. It does not change the list, and returns it if it is in order.
func InOrder(all []Change) []Change {
	if slices.IsSortedFunc(all, byPlace) {
		return all
	}
	all = slices.Clone(all)
	slices.SortStableFunc(all, byPlace)
	return all
}

// full returns a list that is not nil, so that JSON has an empty list and not null.
func full[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// Statuses returns the status of each workload about which capabilities report more than its CPUs, in order.
func (v *View) Statuses() []Status {
	all := []Status{}
	for _, w := range v.Workloads {
		if w.Status != nil {
			all = append(all, *w.Status)
		}
	}
	return all
}

// cpusOf returns the class, the holder and the load of each CPU of the machine.
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

// workloadsOf joins by name what is known about the workloads.
func workloadsOf(f Facts) []Workload {
	r := f.Report
	most := max(len(r.Workloads), len(r.Shown.Holdings))
	all, at := make([]Workload, 0, most), make(map[string]int, most)
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
	slices.SortStableFunc(all, byName)
	return all
}

// Loads returns the busy share of each CPU between two samples, 0 to 1 in thousandths, by CPU number. It is -1 if it is
// unknown: the CPU was offline, or no time passed.
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
