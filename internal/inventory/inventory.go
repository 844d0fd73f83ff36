package inventory

import (
	"slices"
	"time"

	"github.com/berth-project/berth/internal/capability"
	"github.com/berth-project/berth/internal/cluster"
	"github.com/berth-project/berth/internal/place"
	"github.com/berth-project/berth/internal/workload"
)

// Inventory holds the pods and containers of the node. It belongs to one goroutine at a time.
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
	// workloads are those of a host without Kubernetes.
	workloads []workload.Workload
	running   running

	// events are what to report, reported the Obstacle that place was given last.
	events   events
	reported Obstacle
	// started says that the runtime has reported its containers.
	started bool
}

// clock is the time, and when the Inventory was first given it.
type clock struct{ now, began time.Duration }

// never is before any time.
const never = -1

// New returns an Inventory without pods. admin is the agent's own part in
// policies.
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

// Now sets the time, by a monotonic clock. The first call is when the Inventory begins to
// wait for the runtime; without one it waits for as long as that takes.
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
		inv.running.made = false // more or fewer containers have the CPUs of a pool
	}
}

// Desired returns what every container and every pod with a known group should have
// now. Groups that are not among them get back what they had before Berth. The containers are
// appended to all, which may be nil: they are many, and asked for every second.
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

// DesiredIn returns what the container with this group should have now, as Desired says it. An answer
// to the runtime asks for no more than that.
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

// knows says whether a pod is listed, or came before its list.
func (ps *pods) knows(uid string) bool {
	_, early := ps.early[uid]
	return ps.known[uid] != nil || early
}

// join adds the group of its container to what is desired, and says whether that is known.
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
