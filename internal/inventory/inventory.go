package inventory

import (
	"maps"
	"path"
	"slices"
	"time"

	"github.com/berth-project/berth/internal/cluster"
	"github.com/berth-project/berth/internal/cpuset"
	"github.com/berth-project/berth/internal/nri"
	"github.com/berth-project/berth/internal/place"
	"github.com/berth-project/berth/internal/strategy"
	"github.com/berth-project/berth/internal/unit"
	"github.com/berth-project/berth/internal/workload"
)

// Host is what has to be read of the host about a group.
type Host interface {
	// EffectiveCPUs are those that the group's processes may run on, empty where
	// that cannot be read.
	EffectiveCPUs(group string) cpuset.Set
	// Journaled says whether the journal has the CPUs of the group, and whether they
	// are exclusive to a pod.
	Journaled(group string) (set, pinned bool)
	// OriginalCPUs are those that the group would have without Berth, empty where that
	// cannot be read.
	OriginalCPUs(group string) cpuset.Set
}

// Inventory holds the pods and containers of the node. It belongs to one goroutine at a time.
type Inventory struct {
	host  Host
	node  *place.Node
	admin workload.Administrator
	facts place.Facts
	owner owner

	snapshot   *cluster.Snapshot
	pods       map[string]*cluster.Pod // by UID
	early      map[string]*cluster.Pod // by UID: pods that only the runtime has reported
	caps       caps
	strategies *strategy.Strategies
	problems   []strategy.Problem

	// held is what to report, reported the Obstacle that place was given last.
	held     []place.Event
	reported Obstacle

	unwritten map[string]place.Event // by UID: annotations of pods without an object

	// looks counts the calls of Desired.
	looks int
	// limits are those of the workloads of a host without Kubernetes, by UID.
	limits map[string]unit.CPUs
	// started says that the runtime has reported its containers.
	started    bool
	clock      clock
	sandboxes  map[string]nri.Pod // by sandbox
	containers map[string]*container
	answers    map[string]Answered // by container
	attempts   map[attempt]string  // containers that were answered and are not made yet
	arrivals   int                 // how many containers came so far
}

// clock is the time, and when the Inventory was first given it.
type clock struct{ now, began time.Duration }

// never is before any time.
const never = -1

// container is one container as the runtime reports it.
type container struct {
	place.Container
	// group is the container's, "" while it is not known.
	group string
	// order is the one in which containers came.
	order int
	// recorded holds the CPUs that the runtime has on record for it, or was last answered;
	// ours says that Berth answered them.
	recorded cpuset.Set
	ours     bool
	// most holds the CPUs that its group can have, where they were read.
	most cpuset.Set
}

// New returns an Inventory without pods. admin is the agent's own part in
// policies.
func New(host Host, admin workload.Administrator) *Inventory {
	inv := &Inventory{
		host:       host,
		node:       place.New(place.Facts{}),
		admin:      admin,
		clock:      clock{began: never},
		snapshot:   &cluster.Snapshot{},
		pods:       map[string]*cluster.Pod{},
		early:      map[string]*cluster.Pod{},
		unwritten:  map[string]place.Event{},
		sandboxes:  map[string]nri.Pod{},
		containers: map[string]*container{},
		answers:    map[string]Answered{},
		attempts:   map[attempt]string{},
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

// Desired is what the group of a container should have.
type Desired struct {
	Group string
	// Made says that the runtime has CPUs on record for it that Berth answered: the
	// group was made with them.
	Made bool
	place.Desired
}

// DesiredPod is what the group of a pod should have.
type DesiredPod struct {
	Group string
	place.DesiredPod
}

// Desired returns what every container and every pod with a known group should have
// now. Groups that are not among them get back what they had before Berth.
func (inv *Inventory) Desired() ([]Desired, []DesiredPod) {
	var all []Desired
	desired := map[string]bool{}
	for _, d := range inv.node.Desired() {
		if c := inv.containers[d.ContainerID]; c != nil && c.group != "" {
			all = append(all, inv.desired(c, d))
			desired[d.ContainerID] = true
		}
	}
	all = append(all, inv.forgotten(desired)...)
	var pods []DesiredPod
	for _, d := range inv.node.DesiredPods() {
		if group := inv.groupOfPod(d.PodUID); group != "" {
			pods = append(pods, DesiredPod{Group: group, DesiredPod: d})
		}
	}
	return all, pods
}

func (inv *Inventory) desired(c *container, d place.Desired) Desired {
	return Desired{Group: c.group, Made: c.ours, Desired: d}
}

// lookEvery is how often containers are read that nothing is desired for: at a
// daemon-reload systemd writes again what the runtime once set, and reports nothing.
const lookEvery = 16

// forgotten are those containers that the runtime still has few CPUs of Berth's on record
// for, and that have no more: an agent answered these CPUs and ended before it journaled
// them, or systemd remembered. Once they have all CPUs that they can have the
// journal knows them, and they get back what they had before.
func (inv *Inventory) forgotten(desired map[string]bool) []Desired {
	if inv.facts.Machine == nil || inv.Obstacle() != (Obstacle{}) {
		return nil
	}
	var missing []Desired
	all := inv.facts.Machine.Topology().Online
	inv.looks++
	for _, id := range slices.Sorted(maps.Keys(inv.containers)) {
		c := inv.containers[id]
		if desired[id] || !c.ours || c.group == "" || c.Phase != place.Running {
			continue
		}
		if !inv.narrow(c, all) {
			continue
		}
		if set, _ := inv.host.Journaled(c.group); !set {
			missing = append(missing, inv.desired(c, place.Desired{
				ContainerID: id, PodUID: c.PodUID, Container: c.Name, CPUs: c.most, Why: "few CPUs are left from when others were pinned",
			}))
		}
	}
	return missing
}

// narrow says whether a container has fewer CPUs than its group could have.
func (inv *Inventory) narrow(c *container, all cpuset.Set) bool {
	if inv.looks%lookEvery == 0 {
		c.CPUs, c.most = inv.host.EffectiveCPUs(c.group), cpuset.Set{}
	}
	if c.CPUs.IsEmpty() || c.CPUs == all {
		return false
	}
	if c.most.IsEmpty() {
		c.most = inv.attainable(c.group, all)
	}
	return !c.most.IsSubsetOf(c.CPUs)
}

// attainable returns the CPUs of all that a group can have: those of the group above,
// which another writer may keep narrow, and which on cgroup v1 lacks for good what was
// offline once.
func (inv *Inventory) attainable(group string, all cpuset.Set) cpuset.Set {
	if has := inv.host.EffectiveCPUs(groupAbove(group)).Intersect(all); !has.IsEmpty() {
		return has
	}
	return all
}

// groupAbove returns the group above another one, "" for the root.
func groupAbove(group string) string {
	if above := path.Dir(group); above != "." {
		return above
	}
	return ""
}

// groupOfPod returns the group of the pod, "" where it is not known. All sandboxes of
// a pod are made in the one that the kubelet named by its UID.
func (inv *Inventory) groupOfPod(uid string) string {
	for _, s := range inv.sandboxes {
		if s.UID == uid && s.CgroupParent != "" {
			return s.CgroupParent
		}
	}
	return ""
}

// running returns the group in which a container of a pod runs, "" for none. Of
// several with the name, one that was started anew counts.
func (inv *Inventory) running(uid, name string) string {
	var best *container
	for _, c := range inv.containers {
		if c.PodUID != uid || c.Name != name || c.Phase != place.Running || c.group == "" {
			continue
		}
		if best == nil || c.order > best.order {
			best = c
		}
	}
	if best == nil {
		return ""
	}
	return best.group
}

// Pool returns the CPUs of all containers without exclusive ones.
func (inv *Inventory) Pool() cpuset.Set { return inv.node.Pool() }

// Exclusive returns the CPUs that no other container may use: the exclusive CPUs of pods,
// and siblings that stay empty.
func (inv *Inventory) Exclusive() cpuset.Set { return inv.node.Exclusive() }

// Snapshot returns the state of the node.
func (inv *Inventory) Snapshot() place.Snapshot { return inv.node.Snapshot() }

// Pod returns what the cluster says of a pod, nil where it has not reported one.
func (inv *Inventory) Pod(uid string) *cluster.Pod { return inv.pods[uid] }

// Problems are what is wrong in the ConfigMaps.
func (inv *Inventory) Problems() []strategy.Problem { return inv.problems }

// Strategies are what the ConfigMaps ask for, nil before the first Take.
func (inv *Inventory) Strategies() *strategy.Strategies { return inv.strategies }
