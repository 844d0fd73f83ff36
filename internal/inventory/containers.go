package inventory

import (
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/cpuset"
	"github.com/berth-project/berth/internal/nri"
	"github.com/berth-project/berth/internal/place"
	"github.com/berth-project/berth/internal/plan"
	"github.com/berth-project/berth/internal/unit"
)

// Effective is where the processes of a group may be.
type Effective interface {
	// EffectiveCPUs are those that they may run on, empty where that cannot be read.
	EffectiveCPUs(group string) cpuset.Set
	// EffectiveMems are the memory nodes that they may use, empty where that cannot be read.
	EffectiveMems(group string) cpuset.Set
	// HasProcesses says whether there are any in the group or below it, also where that cannot be read of a group that
	// is there.
	HasProcesses(group string) bool
}

// Original is what a group would have without Berth.
type Original interface {
	// OriginalCPUs are those that it would have, empty where that cannot be read.
	OriginalCPUs(group string) cpuset.Set
	// OriginalLimit is its own limit, 0 for none or where that cannot be read.
	OriginalLimit(group string) unit.CPUs
}

// Host is what has to be read of the host about a group.
type Host interface {
	Effective
	Original
	// Journaled says for whom the journal has the CPUs of the group, "" for nobody, and which they
	// are, none where Berth has written none yet.
	Journaled(group string) (owner plan.Owner, given cpuset.Set)
}

// containers are the sandboxes and containers as the runtime reports them, with what the
// host says of their groups and what the runtime was answered.
type containers struct {
	host      Host
	answers   answers
	sandboxes map[string]nri.Pod // by sandbox
	unlisted  map[string]bool    // sandboxes that the runtime did not list last
	byID      map[string]*container
	arrivals  int // how many containers came so far
	looks     int // how often it was asked what is desired
}

func newContainers(host Host) containers {
	return containers{host: host, answers: newAnswers(), sandboxes: map[string]nri.Pod{}, unlisted: map[string]bool{}, byID: map[string]*container{}}
}

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
	// desired is the look at which something was desired of it last.
	desired int
	// unlisted says that it runs although the runtime did not list it last.
	unlisted bool
}

// own is a pod without annotations of others: a user may write a lot there.
func own(p nri.Pod) nri.Pod {
	p.Annotations = v1alpha1.OwnAnnotations(p.Annotations)
	return p
}

// sandboxOf is the container that holds the pod's namespaces.
func sandboxOf(p nri.Pod) *container {
	return &container{
		Container: place.Container{ID: p.ID, PodUID: p.UID, Name: "", Sandbox: true, Phase: place.Running},
		group:     p.CgroupPath,
	}
}

func containerOf(p nri.Pod, c nri.Container, phase place.Phase) *container {
	return &container{
		Container: place.Container{ID: c.ID, PodUID: p.UID, Name: c.Name, Phase: phase},
		group:     c.CgroupPath,
		recorded:  c.Resources.CPUs,
	}
}

func phaseOf(s nri.State) place.Phase {
	switch s {
	case nri.Running, nri.Paused:
		return place.Running
	case nri.Stopped:
		return place.Stopped
	case nri.Unknown, nri.Created:
		return place.Created
	}
	return place.Created
}

// keep completes a container with what the host says of it, and remembers it.
func (cs *containers) keep(c *container) *container {
	journaled := false
	if c.group != "" && c.Phase != place.Stopped {
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
	if c.Bound.IsEmpty() && c.group != "" && c.Phase == place.Running {
		c.Bound = cs.bound(c, journaled)
	}
	cs.byID[c.ID] = c
	return c
}

// lookUp takes over what the journal has of the container's CPUs, and says whether it has them. A group that
// only shrinks to the pool has none of its own, though it was a workload once.
func (cs *containers) lookUp(c *container) bool {
	owner, given := cs.host.Journaled(c.group)
	c.Pinned, c.Given = owner == plan.OwnerPlace && c.PodUID != "", given
	return owner != ""
}

// bound returns the CPUs that a container would have without Berth. A list that Berth
// answered and the journal does not have yet bounds nothing: then those of the group above
// count.
func (cs *containers) bound(c *container, journaled bool) cpuset.Set {
	if !journaled && c.ours {
		return cs.host.OriginalCPUs(groupAbove(c.group))
	}
	return cs.host.OriginalCPUs(c.group)
}

// judge says whether the CPUs on a container's record are Berth's own. They are if Berth
// answered them. Of a container without a known answer, as after the state directory was
// lost, the journal has to say it; what it has as the original is another owner's.
func (cs *containers) judge(c *container, journaled bool) {
	a, known := cs.answers.byID[c.ID]
	if !known && journaled && !c.recorded.IsEmpty() && c.recorded != cs.host.OriginalCPUs(c.group) {
		cs.remember(c, nri.Settings{CPUs: c.recorded})
		return
	}
	c.ours = slices.Contains(a.CPUs, c.recorded)
}

// remember keeps an answer for a container.
func (cs *containers) remember(c *container, s nri.Settings) {
	cs.answers.add(c.ID, c.PodUID, s)
	if !s.CPUs.IsEmpty() {
		c.recorded, c.ours = s.CPUs, true
	}
}

// recorded takes over the CPUs that the runtime says to have on record for a container.
func (cs *containers) recorded(c *container, cpus cpuset.Set) {
	if cpus.IsEmpty() {
		return
	}
	c.recorded = cpus
	journaled := false
	if _, known := cs.answers.byID[c.ID]; !known && c.group != "" { // else the host need not be read
		owner, _ := cs.host.Journaled(c.group)
		journaled = owner != ""
	}
	cs.judge(c, journaled)
}

// restricts says whether a list on record keeps a container off some CPUs. If it does not,
// because the container runs on others or the list names all, it has no owner.
func (cs *containers) restricts(c *container, cpus cpuset.Set) bool {
	all := cs.host.EffectiveCPUs("")
	if !all.IsEmpty() && all.IsSubsetOf(cpus) {
		return false
	}
	if c.Phase != place.Running {
		return c.Phase != place.Stopped
	}
	has := cs.host.EffectiveCPUs(c.group)
	return !has.IsEmpty() && has.IsSubsetOf(cpus) // a group that is gone has none
}

// superseded returns the containers of a name that were made before another one, and never
// started. The runtime does not report one that it failed to make, and the kubelet tries
// again for as long as the pod is there.
func (cs *containers) superseded(by *container) []string {
	var all []string
	for id, c := range cs.byID {
		if id != by.ID && c.PodUID == by.PodUID && c.Name == by.Name && c.Phase == place.Created && !c.Sandbox {
			all = append(all, id)
		}
	}
	return all
}

// lookEvery is how often containers are read that nothing is desired for: at a
// daemon-reload systemd writes again what the runtime once set, and reports nothing.
const lookEvery = 16

// forgotten are those containers that the runtime still has few CPUs of Berth's on record
// for, and that have no more: an agent answered these CPUs and ended before it journaled
// them, everything was to be put back before it did, or systemd remembered. Once they have all CPUs that they can have the
// journal knows them, and they get back what they had before.
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

// isForgotten says whether a container that nothing is desired for is one of them, and what it gets.
func (cs *containers) isForgotten(id string, online cpuset.Set) (d place.Desired, found bool) {
	c := cs.byID[id]
	if !c.ours || c.group == "" || c.Phase != place.Running || !cs.narrow(c, online) {
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

// unstarted says that a container was made with few CPUs and does not run yet, "" where none was. It
// is the first by its ID.
func (cs *containers) unstarted() string {
	for _, id := range slices.Sorted(maps.Keys(cs.byID)) {
		if c := cs.byID[id]; c.ours && c.Phase == place.Created {
			return "container " + id + " was made with CPUs " + c.recorded.String() + " and does not run yet"
		}
	}
	return ""
}

// in returns the ids of the containers with this group, in their order: a new container may have the
// group of one that ended.
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

// narrow says whether a container has fewer CPUs than its group could have.
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

// attainable returns the CPUs of all that a group can have: those of the group above,
// which another writer may keep narrow, and which on cgroup v1 lacks for good what was
// offline once.
func (cs *containers) attainable(group string, all cpuset.Set) cpuset.Set {
	if has := cs.host.EffectiveCPUs(groupAbove(group)).Intersect(all); !has.IsEmpty() {
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

// pinned adds the pods of which a container runs on exclusive CPUs, by UID.
func (cs *containers) pinned(pods map[string]bool) {
	for _, c := range cs.byID {
		if c.Pinned && c.Phase == place.Running {
			pods[c.PodUID] = true
		}
	}
}

// saw takes over which CPUs groups were found to run on, none where that is not known, and
// returns the containers that this says something new of.
func (cs *containers) saw(effective func(group string) cpuset.Set) []place.Container {
	var changed []place.Container
	for _, c := range cs.byID {
		if cpus := effective(c.group); !cpus.IsEmpty() && c.CPUs != cpus {
			c.CPUs = cpus
			cs.lookUp(c)
			changed = append(changed, c.Container)
		}
	}
	return changed
}

// ended returns the sandboxes of unknown pods without a group: containerd does not report the end of
// a sandbox that is older than itself.
func (cs *containers) ended(known func(uid string) bool) []nri.Pod {
	return slices.DeleteFunc(slices.Collect(maps.Values(cs.sandboxes)), func(s nri.Pod) bool {
		return known(s.UID) || s.CgroupPath == "" || !cs.host.EffectiveCPUs(s.CgroupPath).IsEmpty()
	})
}

// hasSandbox says whether the runtime has a sandbox of the pod.
func (cs *containers) hasSandbox(uid string) bool {
	for _, s := range cs.sandboxes {
		if s.UID == uid {
			return true
		}
	}
	return false
}

// groupOfPod returns the group of the pod, "" where it is not known. All sandboxes of
// a pod are made in the one that the kubelet named by its UID.
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
