package inventory

import (
	"maps"
	"path"
	"slices"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/node/nri"
	"github.com/berth-project/berth/internal/node/observed"
	"github.com/berth-project/berth/internal/value/cpuset"
	"github.com/berth-project/berth/internal/value/unit"
)

// Effective reports where the processes of a group may be.
type Effective interface {
	// EffectiveCPUs returns the CPUs that they may run on, empty if unreadable.
	EffectiveCPUs(group string) cpuset.Set
	// EffectiveMems returns the memory nodes that they may use, empty if unreadable.
	EffectiveMems(group string) cpuset.Set
	// HasProcesses reports whether the group, or a group below, has processes. It is true if that cannot be read of an
	// existing group.
	HasProcesses(group string) bool
}

// Original reports the state of a group without Berth.
type Original interface {
	// OriginalCPUs returns its CPUs without Berth, empty if unreadable.
	OriginalCPUs(group string) cpuset.Set
	// OriginalLimit returns its own limit, 0 for none or if unreadable.
	OriginalLimit(group string) unit.CPUs
}

// Host reads facts about a group from the host.
type Host interface {
	Effective
	Original
	// Journaled returns the owner of the group's CPUs in the journal, "" for none, and the CPUs that it was given, none
	// if its original list is desired again.
	Journaled(group string) (owner plan.Owner, given cpuset.Set)
}

// Containers has the sandboxes and containers from the runtime, the host's data of their groups, and Berth's answers.
type Containers struct {
	host      Host
	answers   answers
	sandboxes map[string]nri.Pod // by sandbox
	unlisted  map[string]bool    // sandboxes that the last list omits
	byID      map[string]*container
	arrivals  int // number of containers so far
	looks     int // number of calls of Leftovers
}

func newContainers(host Host) Containers {
	return Containers{host: host, answers: newAnswers(), sandboxes: map[string]nri.Pod{}, unlisted: map[string]bool{}, byID: map[string]*container{}}
}

// container is one container from the runtime.
type container struct {
	observed.Container
	// group is the container's group, "" while unknown.
	group string
	// order is the container's number in the order of arrival.
	order int
	// recorded has the CPUs on the runtime's record or in the last answer; ours is true if Berth answered them.
	recorded cpuset.Set
	ours     bool
	// most has the CPUs that its group can have, if they were read.
	most cpuset.Set
	// unlisted is true if the container runs although the last list omits it.
	unlisted bool
}

// own returns a pod without foreign annotations: a user may write a lot there.
func own(p nri.Pod) nri.Pod {
	p.Annotations = v1alpha1.OwnAnnotations(p.Annotations)
	return p
}

// sandboxOf returns the container that holds the pod's namespaces.
func sandboxOf(p nri.Pod) *container {
	return &container{
		Container: observed.Container{ID: p.ID, PodUID: p.UID, Name: "", Sandbox: true, Phase: observed.Running},
		group:     p.CgroupPath,
	}
}

func containerOf(p nri.Pod, c nri.Container, phase observed.Phase) *container {
	return &container{
		Container: observed.Container{ID: c.ID, PodUID: p.UID, Name: c.Name, Phase: phase},
		group:     c.CgroupPath,
		recorded:  c.Resources.CPUs,
	}
}

func phaseOf(s nri.State) observed.Phase {
	switch s {
	case nri.Running, nri.Paused:
		return observed.Running
	case nri.Stopped:
		return observed.Stopped
	case nri.Unknown, nri.Created:
		return observed.Created
	}
	return observed.Created
}

// keep adds the host's data and what was known before to a container, and remembers it.
func (cs *Containers) keep(c *container) *container {
	journaled := false
	if c.group != "" && c.Phase != observed.Stopped {
		c.CPUs = cs.host.EffectiveCPUs(c.group)
		journaled = cs.lookUp(c)
	}
	cs.judge(c, journaled)
	cs.arrivals++
	c.order = cs.arrivals
	if before := cs.byID[c.ID]; before != nil {
		c.order, c.Bound, c.Made = before.order, before.Bound, before.Made
		if c.group == "" {
			c.group = before.group
		}
		if c.recorded.IsEmpty() {
			c.recorded, c.ours = before.recorded, before.ours
		}
	} else {
		c.Made = cs.made(c)
	}
	if c.Bound.IsEmpty() && c.group != "" && c.Phase == observed.Running {
		c.Bound = cs.bound(c, journaled)
	}
	cs.byID[c.ID] = c
	return c
}

// lookUp copies the journal's data of the container's CPUs, and reports whether there are any. A group that only
// shrinks to the pool has none of its own, even if it was once a workload.
func (cs *Containers) lookUp(c *container) bool {
	owner, given := cs.host.Journaled(c.group)
	c.Pinned, c.Given = owner == plan.OwnerPlace && c.PodUID != "", given
	return owner != ""
}

// bound returns the CPUs that a container would have without Berth. A list that Berth answered and that the journal
// does not have yet bounds nothing: then the CPUs of the group above are valid.
func (cs *Containers) bound(c *container, journaled bool) cpuset.Set {
	if !journaled && c.ours {
		return cs.host.OriginalCPUs(groupAbove(c.group))
	}
	return cs.host.OriginalCPUs(c.group)
}

// made returns the answer of an earlier agent for a container, if its memory nodes are in force or not known yet.
func (cs *Containers) made(c *container) *observed.Made {
	made := cs.answers.byID[c.ID].Made
	if made.Mems.IsEmpty() || c.Phase == observed.Stopped {
		return nil
	}
	if has := cs.host.EffectiveMems(c.group); c.group != "" && !has.IsEmpty() && !made.Mems.IsSubsetOf(has) {
		return nil
	}
	return &made
}

// judge determines whether the CPUs on a container's record are Berth's own: whether Berth answered them. If no answer
// is known, as after the loss of the state directory, the journal decides: CPUs that equal the journal's original are
// another owner's.
func (cs *Containers) judge(c *container, journaled bool) {
	a, known := cs.answers.byID[c.ID]
	if !known && journaled && !c.recorded.IsEmpty() && c.recorded != cs.host.OriginalCPUs(c.group) {
		cs.remember(c, nri.Settings{CPUs: c.recorded})
		return
	}
	c.ours = slices.Contains(a.CPUs, c.recorded)
}

// remember stores an answer for a container.
func (cs *Containers) remember(c *container, s nri.Settings) {
	cs.answers.add(c.ID, c.PodUID, s)
	if !s.CPUs.IsEmpty() {
		c.recorded, c.ours = s.CPUs, true
	}
}

// recorded stores the CPUs on the runtime's record for a container.
func (cs *Containers) recorded(c *container, cpus cpuset.Set) {
	if cpus.IsEmpty() {
		return
	}
	c.recorded = cpus
	journaled := false
	if _, known := cs.answers.byID[c.ID]; !known && c.group != "" { // otherwise the host need not be read
		owner, _ := cs.host.Journaled(c.group)
		journaled = owner != ""
	}
	cs.judge(c, journaled)
}

// restricts reports whether a list on record keeps a container off some CPUs. It does not if the container runs on
// other CPUs, or if the list has all CPUs: the list then reveals no owner.
func (cs *Containers) restricts(c *container, cpus cpuset.Set) bool {
	all := cs.host.EffectiveCPUs("")
	if !all.IsEmpty() && all.IsSubsetOf(cpus) {
		return false
	}
	if c.Phase != observed.Running {
		return c.Phase != observed.Stopped
	}
	has := cs.host.EffectiveCPUs(c.group)
	return !has.IsEmpty() && has.IsSubsetOf(cpus) // a removed group has none
}

// superseded returns earlier containers of the same name that never started. The runtime does not report a container
// that it failed to make, and the kubelet tries again as long as the pod exists.
func (cs *Containers) superseded(by *container) []string {
	var all []string
	for id, c := range cs.byID {
		if id != by.ID && c.PodUID == by.PodUID && c.Name == by.Name && c.Phase == observed.Created && !c.Sandbox {
			all = append(all, id)
		}
	}
	return all
}

// lookEvery is how often to read containers without a desired state: at a daemon-reload systemd writes again what the
// runtime once set, and reports nothing.
const lookEvery = 16

// unstarted returns a sentence about a container that was made with few CPUs and does not run yet, "" for none. Of
// several such containers, it is about the first by ID.
func (cs *Containers) unstarted() string {
	for _, id := range slices.Sorted(maps.Keys(cs.byID)) {
		if c := cs.byID[id]; c.ours && c.Phase == observed.Created {
			return "container " + id + " was made with CPUs " + c.recorded.String() + " and does not run yet"
		}
	}
	return ""
}

// In returns the sorted IDs of the containers with this group: a new container may have the group of an ended
// container.
func (cs *Containers) In(group string) []string {
	var ids []string
	for id, c := range cs.byID {
		if c.group == group {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// narrow reports whether a container has fewer CPUs than its group could have.
func (cs *Containers) narrow(c *container, all cpuset.Set) bool {
	if cs.looks%lookEvery == 0 {
		c.CPUs, c.most = cs.host.EffectiveCPUs(c.group), cpuset.Set{}
	}
	if c.CPUs.IsEmpty() || c.CPUs == all {
		return false
	}
	if c.most.IsEmpty() {
		c.most = cs.attainable(c.group, all)
	}
	return !c.most.IsSubsetOf(c.CPUs)
}

// attainable returns the CPUs of all that a group can have: those of the group above. Another writer may have
// restricted that group, and on cgroup v1 it permanently lacks CPUs that were once offline.
func (cs *Containers) attainable(group string, all cpuset.Set) cpuset.Set {
	if has := cs.host.EffectiveCPUs(groupAbove(group)).Intersect(all); !has.IsEmpty() {
		return has
	}
	return all
}

// groupAbove returns the parent of a group, "" for the root.
func groupAbove(group string) string {
	if above := path.Dir(group); above != "." {
		return above
	}
	return ""
}

// saw stores the CPUs that groups were found to run on, none if unknown, and returns the containers that changed.
func (cs *Containers) saw(effective func(group string) cpuset.Set) []*container {
	var changed []*container
	for _, c := range cs.byID {
		if cpus := effective(c.group); !cpus.IsEmpty() && c.CPUs != cpus {
			c.CPUs = cpus
			cs.lookUp(c)
			changed = append(changed, c)
		}
	}
	return changed
}

// ended returns the sandboxes of unknown pods whose group is gone: containerd does not report the end of a sandbox that
// is older than itself.
func (cs *Containers) ended(known func(uid string) bool) []nri.Pod {
	return slices.DeleteFunc(slices.Collect(maps.Values(cs.sandboxes)), func(s nri.Pod) bool {
		return known(s.UID) || s.CgroupPath == "" || !cs.host.EffectiveCPUs(s.CgroupPath).IsEmpty()
	})
}

// Containers returns what the runtime reported, and the host's data about it. Only the Inventory changes it, except
// for the answers.
func (inv *Inventory) Containers() *Containers { return &inv.containers }

// Of returns what is known of a container, if it is there.
func (cs *Containers) Of(id string) (c observed.Container, found bool) {
	if one := cs.byID[id]; one != nil {
		return one.Container, true
	}
	return c, false
}

// Known returns how many containers and sandboxes are remembered. It is bounded by what the runtime has.
func (cs *Containers) Known() (containers, sandboxes int) { return len(cs.byID), len(cs.sandboxes) }

// GroupOf returns the group of a container, "" while unknown, and whether the runtime has CPUs of Berth's answer on
// record for it.
func (cs *Containers) GroupOf(id string) (group string, answered bool) {
	if c := cs.byID[id]; c != nil {
		return c.group, c.ours
	}
	return "", false
}

// MemsOf returns the memory nodes that the processes of a container may use, empty while unknown.
func (cs *Containers) MemsOf(id string) cpuset.Set {
	if c := cs.byID[id]; c != nil && c.group != "" {
		return cs.host.EffectiveMems(c.group)
	}
	return cpuset.Set{}
}

// OnExclusiveCPUs returns the pods with a running container on exclusive CPUs of Berth's, by UID.
func (cs *Containers) OnExclusiveCPUs() map[string]bool {
	pods := map[string]bool{}
	for _, c := range cs.byID {
		if c.Pinned && c.Phase == observed.Running {
			pods[c.PodUID] = true
		}
	}
	return pods
}

// HasSandbox reports whether the runtime has a sandbox of the pod.
func (cs *Containers) HasSandbox(uid string) bool {
	for _, s := range cs.sandboxes {
		if s.UID == uid {
			return true
		}
	}
	return false
}

// GroupOfPod returns the group of the pod, "" if unknown. All sandboxes of a pod are made in the group that the kubelet
// named by the pod's UID.
func (cs *Containers) GroupOfPod(uid string) string {
	for _, s := range cs.sandboxes {
		if s.UID == uid && s.CgroupParent != "" {
			return s.CgroupParent
		}
	}
	return ""
}

// podOf returns the pod of a container as the runtime reported it.
func (cs *Containers) podOf(c *container) nri.Pod {
	for _, s := range cs.sandboxes {
		if s.UID == c.PodUID {
			return s
		}
	}
	return nri.Pod{UID: c.PodUID}
}

// Handlers returns the runtime handlers of a pod's sandboxes.
func (cs *Containers) Handlers(uid string) []string {
	var all []string
	for _, s := range cs.sandboxes {
		if s.UID == uid {
			all = append(all, s.RuntimeHandler)
		}
	}
	return all
}

// running returns the group in which a container of a pod runs, "" for none.
func (cs *Containers) running(uid, name string) string {
	if c := cs.runs(uid, name); c != nil {
		return c.group
	}
	return ""
}
