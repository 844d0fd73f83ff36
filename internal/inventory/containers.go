package inventory

import (
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/cpuset"
	"github.com/berth-project/berth/internal/nri"
	"github.com/berth-project/berth/internal/observed"
	"github.com/berth-project/berth/internal/place"
	"github.com/berth-project/berth/internal/plan"
	"github.com/berth-project/berth/internal/unit"
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
	// Journaled returns the owner of the group's CPUs in the journal, "" for none, and the CPUs, none if Berth has not
	// written them yet.
	Journaled(group string) (owner plan.Owner, given cpuset.Set)
}

// containers has the sandboxes and containers from the runtime, the host's data of their groups, and Berth's answers.
type containers struct {
	host      Host
	answers   answers
	sandboxes map[string]nri.Pod // by sandbox
	unlisted  map[string]bool    // sandboxes that the last list omits
	byID      map[string]*container
	arrivals  int // number of containers so far
	looks     int // number of calls of Desired
}

func newContainers(host Host) containers {
	return containers{host: host, answers: newAnswers(), sandboxes: map[string]nri.Pod{}, unlisted: map[string]bool{}, byID: map[string]*container{}}
}

// container is one container from the runtime.
type container struct {
	observed.Container
	// group is the container's group, "" while unknown.
	group string
	// order is the container's number in the order of arrival.
	order int
	// recorded has the CPUs on the runtime's record or of the last answer; ours is true if Berth answered them.
	recorded cpuset.Set
	ours     bool
	// most has the CPUs that its group can have, if they were read.
	most cpuset.Set
	// desired is the value of looks at which the container last had a desired state.
	desired int
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

// keep completes a container from the host, and remembers it.
func (cs *containers) keep(c *container) *container {
	journaled := false
	if c.group != "" && c.Phase != observed.Stopped {
		c.CPUs = cs.host.EffectiveCPUs(c.group)
		journaled = cs.lookUp(c)
	}
	cs.judge(c, journaled)
	cs.arrivals++
	c.order = cs.arrivals
	if before := cs.byID[c.ID]; before != nil {
		c.order, c.Bound = before.order, before.Bound
		if c.group == "" {
			c.group = before.group
		}
		if c.recorded.IsEmpty() {
			c.recorded, c.ours = before.recorded, before.ours
		}
	}
	if c.Bound.IsEmpty() && c.group != "" && c.Phase == observed.Running {
		c.Bound = cs.bound(c, journaled)
	}
	cs.byID[c.ID] = c
	return c
}

// lookUp copies the journal's data of the container's CPUs, and reports whether there are any. A group that only
// shrinks to the pool has none of its own, even if it was once a workload.
func (cs *containers) lookUp(c *container) bool {
	owner, given := cs.host.Journaled(c.group)
	c.Pinned, c.Given = owner == plan.OwnerPlace && c.PodUID != "", given
	return owner != ""
}

// bound returns the CPUs that a container would have without Berth. A list that Berth answered and that the journal
// does not have yet bounds nothing: then the CPUs of the group above are valid.
func (cs *containers) bound(c *container, journaled bool) cpuset.Set {
	if !journaled && c.ours {
		return cs.host.OriginalCPUs(groupAbove(c.group))
	}
	return cs.host.OriginalCPUs(c.group)
}

// judge determines whether the CPUs on a container's record are Berth's own: whether Berth answered them. If no answer
// is known, as after the loss of the state directory, the journal decides; the journal's original is another owner's.
func (cs *containers) judge(c *container, journaled bool) {
	a, known := cs.answers.byID[c.ID]
	if !known && journaled && !c.recorded.IsEmpty() && c.recorded != cs.host.OriginalCPUs(c.group) {
		cs.remember(c, nri.Settings{CPUs: c.recorded})
		return
	}
	c.ours = slices.Contains(a.CPUs, c.recorded)
}

// remember stores an answer for a container.
func (cs *containers) remember(c *container, s nri.Settings) {
	cs.answers.add(c.ID, c.PodUID, s)
	if !s.CPUs.IsEmpty() {
		c.recorded, c.ours = s.CPUs, true
	}
}

// recorded stores the CPUs on the runtime's record for a container.
func (cs *containers) recorded(c *container, cpus cpuset.Set) {
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

// restricts reports whether a list on record keeps a container off some CPUs. If the container runs on other CPUs or
// the list has all CPUs, it does not, and has no owner.
func (cs *containers) restricts(c *container, cpus cpuset.Set) bool {
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
func (cs *containers) superseded(by *container) []string {
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

// forgotten returns the containers for which the runtime still has few CPUs of Berth's on record, and that have no
// more. An agent answered these CPUs and did not journal them, because it ended or everything was to be restored first,
// or systemd had them on record. Once such containers have all possible CPUs the journal knows them, and their original
// is restored.
func (cs *containers) forgotten(online cpuset.Set) []place.Desired {
	var missing []place.Desired
	for id, c := range cs.byID {
		if c.desired == cs.looks {
			continue
		}
		if d, found := cs.isForgotten(id, online); found {
			missing = append(missing, d)
		}
	}
	slices.SortFunc(missing, func(a, b place.Desired) int { return strings.Compare(a.ContainerID, b.ContainerID) })
	return missing
}

// isForgotten reports whether a container without a desired state is forgotten, and what it gets.
func (cs *containers) isForgotten(id string, online cpuset.Set) (d place.Desired, found bool) {
	c := cs.byID[id]
	if !c.ours || c.group == "" || c.Phase != observed.Running || !cs.narrow(c, online) {
		return d, false
	}
	if owner, _ := cs.host.Journaled(c.group); owner != "" {
		return d, false
	}
	return place.Desired{
		ContainerID: id, PodUID: c.PodUID, Container: c.Name, Group: c.group, Made: c.ours,
		CPUs: c.most, Why: "few CPUs are left from when others were pinned",
	}, true
}

// unstarted returns a sentence about a container that was made with few CPUs and does not run yet, "" for none. It is
// the first by ID.
func (cs *containers) unstarted() string {
	for _, id := range slices.Sorted(maps.Keys(cs.byID)) {
		if c := cs.byID[id]; c.ours && c.Phase == observed.Created {
			return "container " + id + " was made with CPUs " + c.recorded.String() + " and does not run yet"
		}
	}
	return ""
}

// in returns the sorted ids of the containers with this group: a new container may have the group of an ended
// container.
func (cs *containers) in(group string) []string {
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
func (cs *containers) narrow(c *container, all cpuset.Set) bool {
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
func (cs *containers) attainable(group string, all cpuset.Set) cpuset.Set {
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

// pinned adds the pods with a container on exclusive CPUs, by UID.
func (cs *containers) pinned(pods map[string]bool) {
	for _, c := range cs.byID {
		if c.Pinned && c.Phase == observed.Running {
			pods[c.PodUID] = true
		}
	}
}

// saw stores the CPUs that groups were found to run on, none if unknown, and returns the containers that changed.
func (cs *containers) saw(effective func(group string) cpuset.Set) []observed.Container {
	var changed []observed.Container
	for _, c := range cs.byID {
		if cpus := effective(c.group); !cpus.IsEmpty() && c.CPUs != cpus {
			c.CPUs = cpus
			cs.lookUp(c)
			changed = append(changed, c.Container)
		}
	}
	return changed
}

// ended returns the sandboxes of unknown pods whose group is gone: containerd does not report the end of a sandbox that
// is older than itself.
func (cs *containers) ended(known func(uid string) bool) []nri.Pod {
	return slices.DeleteFunc(slices.Collect(maps.Values(cs.sandboxes)), func(s nri.Pod) bool {
		return known(s.UID) || s.CgroupPath == "" || !cs.host.EffectiveCPUs(s.CgroupPath).IsEmpty()
	})
}

// hasSandbox reports whether the runtime has a sandbox of the pod.
func (cs *containers) hasSandbox(uid string) bool {
	for _, s := range cs.sandboxes {
		if s.UID == uid {
			return true
		}
	}
	return false
}

// groupOfPod returns the group of the pod, "" if unknown. All sandboxes of a pod are made in the group that the kubelet
// named by the pod's UID.
func (cs *containers) groupOfPod(uid string) string {
	for _, s := range cs.sandboxes {
		if s.UID == uid && s.CgroupParent != "" {
			return s.CgroupParent
		}
	}
	return ""
}

// podOf returns the pod of a container as the runtime reported it.
func (cs *containers) podOf(c *container) nri.Pod {
	for _, s := range cs.sandboxes {
		if s.UID == c.PodUID {
			return s
		}
	}
	return nri.Pod{UID: c.PodUID}
}

// handlers returns the runtime handlers of a pod's sandboxes.
func (cs *containers) handlers(uid string) []string {
	var all []string
	for _, s := range cs.sandboxes {
		if s.UID == uid {
			all = append(all, s.RuntimeHandler)
		}
	}
	return all
}

// running returns the group in which a container of a pod runs, "" for none.
func (cs *containers) running(uid, name string) string {
	if c := cs.runs(uid, name); c != nil {
		return c.group
	}
	return ""
}
