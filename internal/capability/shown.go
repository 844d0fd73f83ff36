package capability

import (
	"cmp"

	"github.com/berth-project/berth/internal/cpuset"
	"github.com/berth-project/berth/internal/topology"
)

// Shown is what capabilities know of CPUs and quotas in one form for all of them, so that it
// can be drawn without their readers. It is a copy; the machine is shared, and no code changes it.
type Shown struct {
	// Machine is nil while it is not known.
	Machine *topology.Topology
	// Pools are sets of CPUs by what these are for. The first that has a CPU is its class.
	Pools []Pool
	// Obstacle is why no CPU set is set on this node, empty where they are.
	Obstacle string
	Holdings []Holding
	Quotas   []Quota
}

// Add takes over what another capability shows. The machine and the obstacle stay those that
// were said first.
func (s *Shown) Add(more Shown) {
	s.Machine, s.Obstacle = cmp.Or(s.Machine, more.Machine), cmp.Or(s.Obstacle, more.Obstacle)
	s.Pools = append(s.Pools, more.Pools...)
	s.Holdings, s.Quotas = append(s.Holdings, more.Holdings...), append(s.Quotas, more.Quotas...)
}

// Pool is a set of CPUs of the node with a name.
type Pool struct {
	Name string     `json:"name"`
	CPUs cpuset.Set `json:"cpus"`
}

// Holding is which CPUs and memory nodes a container, or a workload of a host without
// Kubernetes, shall have. Its JSON is a stable contract.
type Holding struct {
	// Workload is its name, or the path of a group that only shrinks to the shared pool.
	Workload string `json:"-"`
	// CPUs and Mems are empty for what it had before Berth. Borrowed are those of the CPUs
	// that others use, too.
	CPUs     cpuset.Set `json:"cpus"`
	Borrowed cpuset.Set `json:"borrowed,omitzero"`
	Mems     cpuset.Set `json:"mems,omitzero"`
	// Exclusive says that the CPUs are its own, but for the borrowed ones.
	Exclusive bool `json:"exclusive"`
	// Why is one sentence. Refused is why it has no exclusive CPUs although it asks.
	Why     string `json:"why,omitempty"`
	Refused string `json:"refused,omitempty"`
}

// Quota is what a workload may use, and what became of it. Its JSON is a stable contract.
type Quota struct {
	Workload string `json:"-"`
	// Limit is what it asks for, Now the quota in force, in CPUs; -1 for no limit.
	Limit float64 `json:"limitCPUs"`
	Now   float64 `json:"nowCPUs"`
	// Credit is what it has saved, of at most Capacity, in CPU-seconds. A capacity of -1 has
	// no bound.
	Credit   float64 `json:"creditCPUSeconds"`
	Capacity float64 `json:"capacityCPUSeconds"`
	// Periods are those in which the group ran, Throttled those in which it was throttled, and
	// Above those in which a group above it was; all since the group was made.
	Periods   uint64 `json:"periods"`
	Throttled uint64 `json:"throttledPeriods"`
	Above     uint64 `json:"throttledPeriodsAbove"`
}
