package tenants

import (
	"maps"
	"path"
	"slices"
	"time"

	"github.com/berth-project/berth/internal/arbiter"
	"github.com/berth-project/berth/internal/cluster"
	"github.com/berth-project/berth/internal/cpuset"
	"github.com/berth-project/berth/internal/nri"
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

// Tenants is what is known. It belongs to one goroutine at a time.
type Tenants struct {
	host    Host
	arbiter *arbiter.Node
	admin   workload.Administrator
	facts   arbiter.Facts
	owner   owner

	snapshot   *cluster.Snapshot
	pods       map[string]*cluster.Pod // by UID
	early      map[string]workload.Pod // by UID: what the runtime says of pods that nobody else told of
	refused    map[string]string       // by UID: pods that the administrator's rules refuse CPUs, and why
	strategies *strategy.Strategies
	problems   []strategy.Problem

	// held is what is to be told, standing the Obstacle that the arbiter was told last.
	held     []arbiter.News
	standing Obstacle

	owed map[string]arbiter.News // by UID: annotations of pods without an object

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
	arbiter.Container
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

// New returns Tenants that know of nobody. admin is the agent's own part in
// policies.
func New(host Host, admin workload.Administrator) *Tenants {
	t := &Tenants{
		host:       host,
		arbiter:    arbiter.New(arbiter.Facts{}),
		admin:      admin,
		began:      time.Now(),
		snapshot:   &cluster.Snapshot{},
		pods:       map[string]*cluster.Pod{},
		early:      map[string]workload.Pod{},
		owed:       map[string]arbiter.News{},
		sandboxes:  map[string]nri.Pod{},
		containers: map[string]*container{},
		answers:    map[string]Answered{},
		tries:      map[try]string{},
	}
	t.tellFacts()
	return t
}

// Want is what the group of a container should have.
type Want struct {
	Group string
	// Made says that the runtime has CPUs on record for it that Berth answered: the
	// group was made with them.
	Made bool
	arbiter.Wish
}

// PodWant is what the group of a pod should have.
type PodWant struct {
	Group string
	arbiter.PodWish
}

// Wants returns what every container and every pod with a known group should have
// now. Groups that are not among them get back what they had before Berth.
func (t *Tenants) Wants() ([]Want, []PodWant) {
	var wants []Want
	wished := map[string]bool{}
	for _, w := range t.arbiter.Wishes() {
		if c := t.containers[w.ContainerID]; c != nil && c.group != "" {
			wants = append(wants, t.want(c, w))
			wished[w.ContainerID] = true
		}
	}
	wants = append(wants, t.forgotten(wished)...)
	var pods []PodWant
	for _, w := range t.arbiter.PodWishes() {
		if group := t.groupOfPod(w.PodUID); group != "" {
			pods = append(pods, PodWant{Group: group, PodWish: w})
		}
	}
	return wants, pods
}

func (t *Tenants) want(c *container, w arbiter.Wish) Want {
	return Want{Group: c.group, Made: c.ours, Wish: w}
}

// lookEvery is how often containers are read that nothing is wished for: systemd puts
// back at a daemon-reload what the runtime once told it, and nobody says so.
const lookEvery = 16

// forgotten are the containers that the runtime still has few CPUs of Berth's on record
// for, and that have no more: an agent told it to make them narrow and did not live to
// journal that, or systemd remembered. Once they have all CPUs that they can have the
// journal knows them, and they get back what they had before.
func (t *Tenants) forgotten(wished map[string]bool) []Want {
	if t.facts.Machine == nil || t.Obstacle() != (Obstacle{}) {
		return nil
	}
	var wants []Want
	all := t.facts.Machine.Topology().Online
	t.looks++
	for _, id := range slices.Sorted(maps.Keys(t.containers)) {
		c := t.containers[id]
		if wished[id] || !c.ours || c.group == "" || c.Phase != arbiter.Running {
			continue
		}
		if !t.narrow(c, all) {
			continue
		}
		if set, _ := t.host.Journaled(c.group); !set {
			wants = append(wants, t.want(c, arbiter.Wish{
				ContainerID: id, PodUID: c.PodUID, Container: c.Name, CPUs: c.most, Why: "few CPUs are left from when others were pinned",
			}))
		}
	}
	return wants
}

// narrow says whether a container has fewer CPUs than its group could have.
func (t *Tenants) narrow(c *container, all cpuset.Set) bool {
	if t.looks%lookEvery == 0 {
		c.CPUs, c.most = t.host.EffectiveCPUs(c.group), cpuset.Set{}
	}
	if c.CPUs.IsEmpty() || c.CPUs == all {
		return false
	}
	if c.most.IsEmpty() {
		c.most = t.attainable(c.group, all)
	}
	return !c.most.IsSubsetOf(c.CPUs)
}

// attainable returns the CPUs of all that a group can have: those of the group above,
// which somebody may keep narrow, and which on cgroup v1 lacks for good what was
// offline once.
func (t *Tenants) attainable(group string, all cpuset.Set) cpuset.Set {
	if has := t.host.EffectiveCPUs(groupAbove(group)).Intersect(all); !has.IsEmpty() {
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
func (t *Tenants) groupOfPod(uid string) string {
	for _, s := range t.sandboxes {
		if s.UID == uid && s.CgroupParent != "" {
			return s.CgroupParent
		}
	}
	return ""
}

// running returns the group in which a container of a pod runs, "" for none. Of
// several with the name, one that was started anew counts.
func (t *Tenants) running(uid, name string) string {
	var best *container
	for _, c := range t.containers {
		if c.PodUID != uid || c.Name != name || c.Phase != arbiter.Running || c.group == "" {
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
func (t *Tenants) Pool() cpuset.Set { return t.arbiter.Pool() }

// Exclusive returns the CPUs that no other container may use: those that pods have for
// themselves, and siblings that stay empty.
func (t *Tenants) Exclusive() cpuset.Set { return t.arbiter.Exclusive() }

// Snapshot returns what people are shown.
func (t *Tenants) Snapshot() arbiter.Snapshot { return t.arbiter.Snapshot() }

// Pod returns what the cluster says of a pod, nil where nobody told of it.
func (t *Tenants) Pod(uid string) *cluster.Pod { return t.pods[uid] }

// Problems are what is wrong in the ConfigMaps.
func (t *Tenants) Problems() []strategy.Problem { return t.problems }

// Strategies are what the ConfigMaps ask for, nil before the first Take.
func (t *Tenants) Strategies() *strategy.Strategies { return t.strategies }
