package capability

import (
	"cmp"
	"slices"

	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// Shown is the capabilities' data of CPUs and quotas in one common form, to be drawn without their readers. No code
// changes the machine and the entries of the lists: while nothing changes, they are shared.
type Shown struct {
	// Machine is nil while unknown.
	Machine *topology.Topology
	// Pools are sets of CPUs by purpose. The first pool with a CPU is its class.
	Pools []Pool
	// Obstacle is why Berth sets no CPU sets on this node, empty if it sets them.
	Obstacle string
	Holdings []Holding
	Quotas   []Quota
}

// Add adds the data of another capability. The first machine and the first obstacle remain.
func (s *Shown) Add(more Shown) {
	s.Machine, s.Obstacle = cmp.Or(s.Machine, more.Machine), cmp.Or(s.Obstacle, more.Obstacle)
	s.Pools = joined(s.Pools, more.Pools)
	s.Holdings, s.Quotas = joined(s.Holdings, more.Holdings), joined(s.Quotas, more.Quotas)
}

// joined appends a list to another, and shares it if it is the first.
func joined[T any](all, more []T) []T {
	if len(all) == 0 {
		return slices.Clip(more) // later additions go to another list
	}
	return append(all, more...)
}

// Pool is a set of CPUs of the node with a name.
type Pool struct {
	Name string     `json:"name"`
	CPUs cpuset.Set `json:"cpus"`
}

// Holding has the desired CPUs and memory nodes of a container, or of a workload of a host without Kubernetes. Its JSON
// is a stable contract.
type Holding struct {
	// Workload is its name, or the path of a group that only shrinks to the shared pool.
	Workload string `json:"-"`
	// CPUs and Mems are empty for the lists from before Berth. Borrowed are the CPUs that other containers also use.
	CPUs     cpuset.Set `json:"cpus"`
	Borrowed cpuset.Set `json:"borrowed,omitzero"`
	Mems     cpuset.Set `json:"mems,omitzero"`
	// Exclusive means that the CPUs are its own, except the borrowed CPUs.
	Exclusive bool `json:"exclusive"`
	// Why is one sentence. Refused is why it has no exclusive CPUs although it asks.
	Why     string `json:"why,omitempty"`
	Refused string `json:"refused,omitempty"`
}

// Quota is what a workload may use, and the result. Its JSON is a stable contract.
type Quota struct {
	Workload string `json:"-"`
	// Limit is the limit it asks for, Now the quota in force, in CPUs; -1 for no limit.
	Limit float64 `json:"limitCPUs"`
	Now   float64 `json:"nowCPUs"`
	// Credit is the saved credit, at most Capacity, in CPU-seconds. A capacity of -1 has no bound.
	Credit   float64 `json:"creditCPUSeconds"`
	Capacity float64 `json:"capacityCPUSeconds"`
	// Periods are the periods in which the group ran, Throttled those in which it was throttled, and Above those in
	// which a group above it was; all since the group was made.
	Periods   uint64 `json:"periods"`
	Throttled uint64 `json:"throttledPeriods"`
	Above     uint64 `json:"throttledPeriodsAbove"`
}
