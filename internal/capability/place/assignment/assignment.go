package assignment

import (
	"slices"

	"github.com/berth-project/berth/internal/capability"
	"github.com/berth-project/berth/internal/capability/place"
	"github.com/berth-project/berth/internal/intent/workload"
	"github.com/berth-project/berth/internal/node/cluster"
	"github.com/berth-project/berth/internal/node/inventory"
	"github.com/berth-project/berth/internal/node/observed"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// Assignment has the CPUs of the containers of an Inventory. It is not safe for concurrent use.
type Assignment struct {
	inventory *inventory.Inventory
	node      *place.Node
	facts     place.Facts
	caps      caps
	running   running
	// events are the events to report. reported is the obstacle that place was told last.
	events   events
	reported observed.Obstacle
	// placed has the containers of the last call of Desired.
	placed map[string]bool
}

// New returns the Assignment of an Inventory. Only this Assignment may read the Inventory's Changes.
func New(inv *inventory.Inventory) *Assignment {
	a := &Assignment{
		inventory: inv, node: place.New(place.Facts{}), placed: map[string]bool{},
		events: events{unwritten: map[string]place.Event{}},
	}
	a.setFacts()
	return a
}

// SetFacts replaces the facts of the whole node, except Pinnable, Reason and MemsOwner, which come from the Inventory.
func (a *Assignment) SetFacts(f place.Facts) {
	a.learn() // an earlier AllocatableMilli does not replace this one
	a.facts = f
	if f.Machine == nil {
		a.inventory.SetTopology(nil)
		return
	}
	a.inventory.SetTopology(f.Machine.Topology())
}

// SetOffline replaces the cores of offline work.
func (a *Assignment) SetOffline(cores capability.Offline) {
	if a.node.SetOffline(cores) {
		a.running.made = false // the number of containers with a pool's CPUs changes
	}
}

// learn passes the changes of the Inventory to place. It asks place for decisions only before the first change and
// after the last: between them, a decision would not know all pods and containers.
func (a *Assignment) learn() {
	a.node.Now(a.inventory.Time())
	changes := a.inventory.Changes()
	if len(changes) == 0 {
		return
	}
	a.running.made = false
	if slices.ContainsFunc(changes, func(c inventory.Change) bool { return c.What == inventory.PodsListed || c.What == inventory.PodEarly }) {
		a.refuse()
	}
	owner := false
	for _, c := range changes {
		owner = owner || c.What == inventory.OwnerSeen || c.What == inventory.ClusterSeen
		a.pass(c)
	}
	if owner {
		a.setFacts()
	}
}

// pass passes one change to place.
func (a *Assignment) pass(c inventory.Change) {
	switch c.What {
	case inventory.PodsListed:
		a.node.Pods.Set(a.listed())
	case inventory.WorkloadsListed:
		a.node.Pods.Set(c.Listed)
	case inventory.PodSeen, inventory.PodEarly:
		a.put(c.ID)
	case inventory.PodEmpty:
		a.node.Pods.RemovePod(c.ID)
	case inventory.PodGone:
		a.node.Pods.Drop(c.ID)
	case inventory.ContainersListed:
		a.node.Pods.SetContainers(c.Containers)
	case inventory.ContainerSeen:
		a.node.Pods.Observe(c.Containers[0])
	case inventory.ContainerGone:
		a.node.Pods.Remove(c.ID)
	case inventory.ClusterSeen:
		a.facts.AllocatableMilli = c.AllocatableMilli
	case inventory.OwnerSeen:
	}
}

// setFacts passes the facts of the whole node to place.
func (a *Assignment) setFacts() {
	f, o := a.facts, a.inventory.Obstacle()
	if o != a.reported && a.reported != (observed.Obstacle{}) {
		a.holdEvents() // the refusals because of the old obstacle have ended
	}
	a.reported = o
	f.Pinnable, f.Reason, f.MemsOwner = o == observed.Obstacle{}, o.Message, a.inventory.MemsOwner()
	a.node.SetFacts(f)
}

// put passes a pod to place, if it is still there.
func (a *Assignment) put(uid string) {
	p := a.inventory.Pods.Pod(uid)
	if p == nil {
		p = a.inventory.Pods.Early(uid)
	}
	if p != nil {
		a.node.Pods.Put(a.asked(p))
	}
}

// listed returns all pods as place sees them.
func (a *Assignment) listed() []workload.Pod {
	pods := a.inventory.Pods.All()
	all := make([]workload.Pod, 0, len(pods))
	for _, p := range pods {
		all = append(all, a.asked(p))
	}
	return all
}

// asked returns the pod with its class (offline or not), and the reason why it gets no exclusive CPUs here.
func (a *Assignment) asked(p *cluster.Pod) workload.Pod {
	pod := p.Pod
	pod.Offline = a.inventory.Policies.Class(p).Offline()
	if why := excluded(p, a.inventory.Containers().Handlers(p.UID)); why != "" {
		pod.Excluded.Why = why
	} else if why := a.caps.refused[p.UID]; why != "" {
		// The rule may be newer than the pod's CPUs.
		pod.Excluded = workload.Exclusion{Why: why, KeepsOwn: true}
	} else {
		pod.Excluded.Why = a.inventory.ForeignOwner(p.UID)
	}
	return pod
}

// excluded returns why a pod gets no exclusive CPUs, "" if it may get some: it runs in a virtual machine. handlers are
// the handlers of its sandboxes.
func excluded(p *cluster.Pod, handlers []string) string {
	for _, h := range slices.Insert(handlers, 0, p.RuntimeClass) {
		if workload.StartsVM(h) {
			return "its runtime handler " + h + " starts a virtual machine"
		}
	}
	return ""
}

// Desired returns the desired state of every container and every pod with a known group. Other groups get back their
// state from before Berth. Desired appends the containers to all, so that the caller can reuse a list; all may be nil.
func (a *Assignment) Desired(all []place.Desired) ([]place.Desired, []place.DesiredPod) {
	a.learn()
	desired := a.node.Desired()
	all = slices.Grow(all, len(desired))
	clear(a.placed)
	for _, d := range desired {
		if a.join(&d) {
			a.placed[d.ContainerID] = true
			all = append(all, d)
		}
	}
	for _, l := range a.inventory.Leftovers(func(id string) bool { return a.placed[id] }) {
		all = append(all, healed(l))
	}
	var pods []place.DesiredPod
	for _, d := range a.node.DesiredPods() {
		if d.Group = a.inventory.Containers().GroupOfPod(d.PodUID); d.Group != "" {
			pods = append(pods, d)
		}
	}
	return all, pods
}

// DesiredIn returns the desired state of the container with this group, as in Desired. An answer to the runtime needs
// no more than that.
func (a *Assignment) DesiredIn(group string) (place.Desired, bool) {
	a.learn()
	ids := a.inventory.Containers().In(group)
	for _, id := range ids {
		if d, found := a.node.DesiredFor(id); found && a.join(&d) {
			return d, true
		}
	}
	for _, id := range ids {
		if l, found := a.inventory.Leftover(id); found {
			return healed(l), true
		}
	}
	return place.Desired{}, false
}

// join adds the container's group to its desired state, and reports whether the group is known.
func (a *Assignment) join(d *place.Desired) bool {
	group, answered := a.inventory.Containers().GroupOf(d.ContainerID)
	if group == "" {
		return false
	}
	d.Group, d.Made = group, answered
	if d.NoQuota {
		d.Limit = a.inventory.Pods.LimitOf(d.PodUID, d.Container)
	}
	return true
}

// healed returns the desired state of a container that gets all that it can have.
func healed(l inventory.Leftover) place.Desired {
	return place.Desired{
		ContainerID: l.ID, PodUID: l.PodUID, Container: l.Name, Group: l.Group, Made: true,
		CPUs: l.CPUs, Mems: l.Mems, NoQuota: l.NoQuota, Limit: l.Limit,
		Why: "few CPUs are left from when others were pinned",
	}
}

// Exclusive returns the CPUs that no other container may use: the exclusive CPUs of pods, and siblings that stay empty.
func (a *Assignment) Exclusive() cpuset.Set {
	a.learn()
	return a.node.Exclusive()
}

// Offline returns the CPUs of offline work, none if it shares the pool.
func (a *Assignment) Offline() cpuset.Set {
	a.learn()
	return a.node.Offline()
}

// HasOffline reports whether there is offline work.
func (a *Assignment) HasOffline() bool {
	a.learn()
	return a.node.HasOffline()
}

// Unrequested returns by how many CPUs the exclusive CPUs of pods exceed the requests of these pods.
func (a *Assignment) Unrequested() (cpus float64) {
	a.learn()
	return a.node.Unrequested()
}

// Snapshot returns the state of the node, as place.Node.Snapshot does.
func (a *Assignment) Snapshot() *place.Snapshot {
	a.learn()
	return a.node.Snapshot()
}
