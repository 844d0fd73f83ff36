package inventory

import (
	"slices"
	"time"

	"github.com/berth-project/berth/internal/capability"
	"github.com/berth-project/berth/internal/cluster"
	"github.com/berth-project/berth/internal/place"
	"github.com/berth-project/berth/internal/workload"
)

// Inventory holds the pods and containers of the node. It is not safe for concurrent use.
type Inventory struct {
	cpus
	owner owner
	clock clock

	snapshot *cluster.Snapshot
	pods
	policies
	caps       caps
	containers containers
	standalone standalone
	// workloads are the workloads of a host without Kubernetes.
	workloads []workload.Workload
	running   running

	// events are the events to report, reported the last Obstacle passed to place.
	events   events
	reported Obstacle
	// started is true once the runtime has reported its containers.
	started bool
}

// clock is the time, and the time of the first call of Now.
type clock struct{ now, began time.Duration }

// never is before any time.
const never = -1

// New returns an Inventory without pods. admin is the agent's own part of the policies.
func New(host Host, admin workload.Administrator) *Inventory {
	inv := &Inventory{
		cpus:       cpus{node: place.New(place.Facts{})},
		clock:      clock{began: never},
		snapshot:   &cluster.Snapshot{},
		pods:       pods{known: map[string]*cluster.Pod{}, early: map[string]*cluster.Pod{}},
		policies:   policies{admin: admin},
		containers: newContainers(host),
		events:     events{unwritten: map[string]place.Event{}},
	}
	inv.setFacts()
	return inv
}

// Now sets the time, from a monotonic clock. The first call starts the time limit of the wait for the runtime; without
// a call the wait has no limit.
func (inv *Inventory) Now(now time.Duration) {
	inv.clock.now = now
	if inv.clock.began == never {
		inv.clock.began = now
	}
	inv.node.Now(now)
}

// SetOffline replaces the cores of offline work.
func (inv *Inventory) SetOffline(cores capability.Offline) {
	if inv.node.SetOffline(cores) {
		inv.running.made = false // the number of containers with a pool's CPUs changes
	}
}

// Desired returns the desired state of every container and every pod with a known group. Other groups get back their
// state from before Berth. Desired appends the containers to all, which may be nil: there are many, every second.
func (inv *Inventory) Desired(all []place.Desired) ([]place.Desired, []place.DesiredPod) {
	desired := inv.node.Desired()
	all = slices.Grow(all, len(desired))
	inv.containers.looks++
	for _, d := range desired {
		if inv.join(&d, &inv.containers) {
			all = append(all, d)
		}
	}
	all = append(all, forgotten(inv)...)
	var pods []place.DesiredPod
	for _, d := range inv.node.DesiredPods() {
		if d.Group = inv.containers.groupOfPod(d.PodUID); d.Group != "" {
			pods = append(pods, d)
		}
	}
	return all, pods
}

// DesiredIn returns the desired state of the container with this group, as in Desired. An answer to the runtime needs
// no more than that.
func (inv *Inventory) DesiredIn(group string) (place.Desired, bool) {
	ids := inv.containers.in(group)
	for _, id := range ids {
		if d, found := inv.node.DesiredFor(id); found && inv.join(&d, &inv.containers) {
			return d, true
		}
	}
	if !heals(inv) {
		return place.Desired{}, false
	}
	for _, id := range ids {
		if d, found := inv.containers.isForgotten(id, inv.facts.Machine.Topology().Online); found {
			undo(inv, &d)
			return d, true
		}
	}
	return place.Desired{}, false
}

// knows reports whether a pod is listed, or came before its list.
func (ps *pods) knows(uid string) bool {
	_, early := ps.early[uid]
	return ps.known[uid] != nil || early
}

// join adds the container's group to its desired state, and reports whether the group is known.
func (ps *pods) join(d *place.Desired, cs *containers) bool {
	c := cs.byID[d.ContainerID]
	if c == nil || c.group == "" {
		return false
	}
	d.Group, d.Made, c.desired = c.group, c.ours, cs.looks
	if d.NoQuota {
		d.Limit = ps.limitOf(d.PodUID, d.Container)
	}
	return true
}
