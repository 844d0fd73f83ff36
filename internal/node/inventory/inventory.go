package inventory

import (
	"time"

	"github.com/berth-project/berth/internal/intent/workload"
	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/node/cluster"
)

// Inventory holds the pods and containers of the node. It is not safe for concurrent use.
type Inventory struct {
	Pods     Pods
	Policies Policies

	owner owner
	clock clock

	snapshot *cluster.Snapshot
	// topology is the host's, nil while unknown.
	topology   *topology.Topology
	containers Containers
	standalone standalone
	// workloads are the workloads of a host without Kubernetes.
	workloads []workload.Workload
	running   running
	// started is true once the runtime has reported its containers.
	started bool
	// changes are those since the last call of Changes.
	changes changes
}

// clock is the time, and the time of the first call of Now.
type clock struct{ now, began time.Duration }

// never is before any time.
const never = -1

// New returns an Inventory without pods. admin is the agent's own part of the policies.
func New(host Host, admin workload.Administrator) *Inventory {
	return &Inventory{
		clock:      clock{began: never},
		snapshot:   &cluster.Snapshot{},
		Pods:       Pods{known: map[string]*cluster.Pod{}, early: map[string]*cluster.Pod{}},
		Policies:   Policies{admin: admin},
		containers: newContainers(host),
	}
}

// Now sets the time, from a monotonic clock. The first call starts the time limit of the wait for the runtime; without
// a call the wait has no limit.
func (inv *Inventory) Now(now time.Duration) {
	inv.clock.now = now
	if inv.clock.began == never {
		inv.clock.began = now
	}
}

// Time returns the time of the last call of Now.
func (inv *Inventory) Time() time.Duration { return inv.clock.now }

// SetTopology replaces the host's topology, nil for unknown.
func (inv *Inventory) SetTopology(t *topology.Topology) {
	inv.topology = t
	inv.ownerChanged()
}

// Topology returns the host's topology, nil while it is unknown.
func (inv *Inventory) Topology() *topology.Topology { return inv.topology }

// ownerChanged records that the owner of CPU sets may have changed.
func (inv *Inventory) ownerChanged() {
	inv.running.made = false
	inv.changes.add(Change{What: OwnerSeen})
}

// knows reports whether the cluster or the runtime has reported a pod.
func (ps *Pods) knows(uid string) bool {
	_, early := ps.early[uid]
	return ps.known[uid] != nil || early
}
