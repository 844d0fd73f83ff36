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
	// Journaled says whether the journal has the CPUs of the group, and whether as
	// set for a pod of its own.
	Journaled(group string) (set, pinned bool)
	// OriginalCPUs are those that the group would have without Berth, empty where that
	// cannot be read.
	OriginalCPUs(group string) cpuset.Set
}

// Inventory is what is known. It belongs to one goroutine at a time.
type Inventory struct {
	host  Host
	node  *place.Node
	admin workload.Administrator
	facts place.Facts
	owner owner

	snapshot   *cluster.Snapshot
	pods       map[string]*cluster.Pod // by UID
	early      map[string]workload.Pod // by UID: what the runtime says of pods that nobody else told of
	refused    map[string]string       // by UID: pods that the administrator's rules refuse CPUs, and why
	strategies *strategy.Strategies
	problems   []strategy.Problem

	// held is what is to be told, standing the Obstacle that the place was told last.
	held     []place.News
	standing Obstacle

	owed map[string]place.News // by UID: annotations of pods without an object

	// looks counts how often Wants was asked.
	looks int
	// limits are those of the workloads of a host without Kubernetes, by UID.
	limits map[string]unit.CPUs
	// started says that it is known what runs; began is since when that is waited for.
	started    bool
	began      time.Time
	sandboxes  map[string]nri.Pod // by sandbox
	containers map[string]*container
	answers    map[string]Answered // by container
	tries      map[try]string      // containers that were answered and are not made yet
	arrivals   int                 // how many containers came so far
}

// container is one container as the runtime tells it.
type container struct {
	place.Container
	// group is the container's, "" while it is not known.
	group string
	// order is the one in which containers came.
	order int
	// told holds the CPUs that the runtime has on record for it, or was told last; ours
	// says that Berth told it.
	told cpuset.Set
	ours bool
	// most holds the CPUs that its group can have, where somebody looked.
	most cpuset.Set
}

// New returns an Inventory without pods. admin is the agent's own part in
// policies.
func New(host Host, admin workload.Administrator) *Inventory {
	inv := &Inventory{
		host:       host,
		node:       place.New(place.Facts{}),
		admin:      admin,
		began:      time.Now(),
		snapshot:   &cluster.Snapshot{},
		pods:       map[string]*cluster.Pod{},
		early:      map[string]workload.Pod{},
		owed:       map[string]place.News{},
		sandboxes:  map[string]nri.Pod{},
		containers: map[string]*container{},
		answers:    map[string]Answered{},
		tries:      map[try]string{},
	}
	inv.tellFacts()
	return inv
}

// Want is what the group of a container should have.
type Want struct {
	Group string
	// Made says that the runtime has CPUs on record for it that Berth answered: the
	// group was made with them.
	Made bool
	place.Wish
}

// PodWant is what the group of a pod should have.
type PodWant struct {
	Group string
	place.PodWish
}

// Wants returns what every container and every pod with a known group should have
// now. Groups that are not among them get back what they had before Berth.
func (inv *Inventory) Wants() ([]Want, []PodWant) {
	var wants []Want
	wished := map[string]bool{}
	for _, w := range inv.node.Wishes() {
		if c := inv.containers[w.ContainerID]; c != nil && c.group != "" {
			wants = append(wants, inv.want(c, w))
			wished[w.ContainerID] = true
		}
	}
	wants = append(wants, inv.forgotten(wished)...)
	var pods []PodWant
	for _, w := range inv.node.PodWishes() {
		if group := inv.groupOfPod(w.PodUID); group != "" {
			pods = append(pods, PodWant{Group: group, PodWish: w})
		}
	}
	return wants, pods
}

func (inv *Inventory) want(c *container, w place.Wish) Want {
	return Want{Group: c.group, Made: c.ours, Wish: w}
}

// lookEvery is how often containers are read that nothing is wished for: systemd puts
// back at a daemon-reload what the runtime once told it, and nobody says so.
const lookEvery = 16

// forgotten are the containers that the runtime still has few CPUs of Berth's on record
// for, and that have no more: an agent told it to make them narrow and did not live to
// journal that, or systemd remembered. Once they have all CPUs that they can have the
// journal knows them, and they get back what they had before.
func (inv *Inventory) forgotten(wished map[string]bool) []Want {
	if inv.facts.Machine == nil || inv.Obstacle() != (Obstacle{}) {
		return nil
	}
	var wants []Want
	all := inv.facts.Machine.Topology().Online
	inv.looks++
	for _, id := range slices.Sorted(maps.Keys(inv.containers)) {
		c := inv.containers[id]
		if wished[id] || !c.ours || c.group == "" || c.Phase != place.Running {
			continue
		}
		if !inv.narrow(c, all) {
			continue
		}
		if set, _ := inv.host.Journaled(c.group); !set {
			wants = append(wants, inv.want(c, place.Wish{
				ContainerID: id, PodUID: c.PodUID, Container: c.Name, CPUs: c.most, Why: "few CPUs are left from when others were pinned",
			}))
		}
	}
	return wants
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
// which somebody may keep narrow, and which on cgroup v1 lacks for good what was
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

// Pool returns the CPUs of all containers that have none of their own.
func (inv *Inventory) Pool() cpuset.Set { return inv.node.Pool() }

// Exclusive returns the CPUs that no other container may use: those that pods have for
// themselves, and siblings that stay empty.
func (inv *Inventory) Exclusive() cpuset.Set { return inv.node.Exclusive() }

// Snapshot returns what people are shown.
func (inv *Inventory) Snapshot() place.Snapshot { return inv.node.Snapshot() }

// Pod returns what the cluster says of a pod, nil where nobody told of it.
func (inv *Inventory) Pod(uid string) *cluster.Pod { return inv.pods[uid] }

// Problems are what is wrong in the ConfigMaps.
func (inv *Inventory) Problems() []strategy.Problem { return inv.problems }

// Strategies are what the ConfigMaps ask for, nil before the first Take.
func (inv *Inventory) Strategies() *strategy.Strategies { return inv.strategies }
