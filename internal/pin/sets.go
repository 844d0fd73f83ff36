package pin

import (
	"log/slog"
	"slices"
	"strings"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability"
	"github.com/berth-project/berth/internal/cgroup"
	"github.com/berth-project/berth/internal/cluster"
	"github.com/berth-project/berth/internal/cpuset"
	"github.com/berth-project/berth/internal/hardware"
	"github.com/berth-project/berth/internal/hostfs"
	"github.com/berth-project/berth/internal/inventory"
	"github.com/berth-project/berth/internal/kubelet"
	"github.com/berth-project/berth/internal/nri"
	"github.com/berth-project/berth/internal/place"
	"github.com/berth-project/berth/internal/plan"
	"github.com/berth-project/berth/internal/reconcile"
	"github.com/berth-project/berth/internal/self"
)

// Answers keeps on disk what the runtime was answered.
type Answers interface {
	// Recall returns what an earlier agent of this boot answered, by container, and what of
	// it cannot be read.
	Recall() (map[string]inventory.Answered, error)
	// Save writes down what the runtime is about to be answered; current is every answer
	// that counts after it.
	Save(e nri.Event, r nri.Reply, current func(...string) map[string]inventory.Answered) error
}

// Reconciler brings about what is desired, and here ahead of its next pass.
type Reconciler interface {
	// Record journals what the runtime is about to write.
	Record(desired []plan.Desired) error
	// Urgent writes at once what is desired of one group, and says whether systemd is to be
	// asked for it.
	Urgent(group string, desired []plan.Desired) bool
	// Touch has a group looked at that another program writes.
	Touch(group string)
}

// Pods are the pods of the cluster.
type Pods interface {
	// Annotate sets an annotation of a pod, nil removes it.
	Annotate(pod cluster.Object, key string, value *string)
}

// Options is what Sets need from their surroundings. Every field is required.
type Options struct {
	Root    *hostfs.Root
	Host    *cgroup.Host
	Log     *slog.Logger
	Groups  inventory.Effective
	Answers Answers
	// Self is the group that the agent runs in.
	Self self.Self
	// Fail is called with a failure of the agent's own work, Invalid with what is wrong in
	// the labels of the node, nil for nothing, and Awaited with the group of a container
	// that is about to run, which systemd is to be asked for first.
	Fail    func(what string, err error)
	Invalid func(error)
	Awaited func(group string)
	// MayChange is nil where the memory nodes of a group that runs may become these now, else what is in
	// the way.
	MayChange func(group string, to cpuset.Set) error
}

// Sets keeps the CPU sets of this node where place decides them. It is for one goroutine at
// a time.
type Sets struct {
	opts       Options
	inventory  *inventory.Inventory
	reconciler Reconciler
	cluster    Pods // nil on a host without Kubernetes
	machine    hardware.Machine
	doubt      string // what the log says of its memory
	kubelet    kubelet.Knowledge
	self       self.Self
	// online are the CPUs that are online.
	online cpuset.Set
	// pods has the UID of the pod of every group of which something is desired.
	pods map[string]string
	// unlimited are the groups that run without a quota, as it was decided last, and reserved
	// is how many exclusive CPUs those have that keep theirs.
	unlimited map[string]bool
	reserved  map[string]int
	// exclusive are the CPUs that pods had for themselves then, or offline work.
	exclusive cpuset.Set
	// keepsMems says of which groups the pages move first, nil for none. wide has the groups that do
	// not have their memory nodes yet, by container, and groups what the last pass found.
	keepsMems func(group string, to cpuset.Set) bool
	wide      map[string]wide
	groups    []reconcile.Status
	borrowing borrowing
	asked     asked
	// decided are the placements to write once the CPUs are.
	decided []place.Event
	// unlisted are the groups that run without the runtime listing them, as the log has them.
	unlisted string
}

// New returns Sets for what an Inventory has. What an agent of the same boot answered the
// runtime counts. They need a Reconciler (ReconcileBy) before anything is decided.
func New(opts Options, inv *inventory.Inventory) *Sets {
	answered, err := opts.Answers.Recall()
	if err != nil {
		opts.Log.Warn("answers to the runtime ignored", "error", err)
	}
	inv.Recall(answered)
	return &Sets{opts: opts, inventory: inv, self: opts.Self, borrowing: newBorrowing(opts.Host, inv)}
}

// ReconcileBy replaces what brings about what is decided.
func (s *Sets) ReconcileBy(r Reconciler) { s.reconciler = r }

// Join makes the node one of a cluster.
func (s *Sets) Join(pods Pods) {
	s.cluster = pods
	s.passOwner()
}

// Decide implements capability.Decider.
func (s *Sets) Decide(n *capability.Node) capability.Decision {
	s.annotateAll() // of the last round, where that was held
	s.keepsMems = n.KeepsMems
	s.inventory.SetOffline(n.Offline)
	var d capability.Decision
	if d.Held = !s.known(); !d.Held {
		s.borrow(n.Now)
		d.Settings, s.exclusive = s.desired(), s.inventory.Exclusive().Union(s.inventory.Offline())
	}
	d.Events = s.events()
	n.Unlimited, n.Reserved, n.Exclusive = s.unlimited, s.reserved, s.exclusive
	return d
}

// known says whether enough is known to change CPU sets, or to put them back.
func (s *Sets) known() bool { return s.inventory.Settled(s.cluster != nil) }

// asked is what the containers and pods should have, and settings what their groups should have
// because of it.
type asked struct {
	containers []place.Desired
	pods       []place.DesiredPod
	settings   []plan.Desired
	// spare is the list before, of which nothing counts: the next one is made in it.
	spare []place.Desired
}

// desired is what the groups should have. It takes over which of them run without a quota,
// and what the agent's own group should have.
func (s *Sets) desired() []plan.Desired {
	containers, pods := s.inventory.Desired(s.asked.spare[:0])
	s.self.CPUs, s.wide = cpuset.Set{}, map[string]wide{}
	for i, d := range containers {
		if kept := s.kept(d); kept.why != "" {
			containers[i].Mems, s.wide[d.ContainerID] = kept.mems, kept
		}
	}
	containers = slices.DeleteFunc(containers, func(d place.Desired) bool {
		own := s.self.Is(d.Group)
		if own {
			s.self.CPUs = d.CPUs
		}
		return own
	})
	if !slices.Equal(containers, s.asked.containers) || !slices.Equal(pods, s.asked.pods) {
		containers, s.asked.containers = s.asked.containers, containers
		s.asked.pods, s.asked.settings = pods, s.settings(s.asked.containers, pods)
	}
	s.asked.spare = containers
	return s.asked.settings
}

// settings makes what is desired of groups of what containers and pods should have.
func (s *Sets) settings(containers []place.Desired, pods []place.DesiredPod) []plan.Desired {
	all := make([]plan.Desired, 0, len(containers)+len(pods))
	s.pods, s.unlimited, s.reserved = map[string]string{}, map[string]bool{}, map[string]int{}
	for _, d := range containers {
		all = append(all, d.Settings()...)
		s.pods[d.Group], s.unlimited[d.Group] = d.PodUID, d.NoQuota
		if d.Pinned && !d.NoQuota {
			s.reserved[d.Group] = d.CPUs.Difference(d.Borrowed).Size()
		}
	}
	for _, d := range pods {
		all = append(all, d.Settings()...)
		s.pods[d.Group], s.unlimited[d.Group] = d.PodUID, d.NoQuota
	}
	return all
}

// wide is the memory nodes that a group has for now, others than it is to have, and why.
type wide struct {
	mems cpuset.Set
	why  string
}

// kept returns the memory nodes that a container gets for now, where those that it is to have may not be written: to
// lose some moves all that is elsewhere, and each write takes its time. Its why is empty where nothing is in the way.
func (s *Sets) kept(d place.Desired) wide {
	if d.Mems.IsEmpty() {
		return wide{}
	}
	moves := s.keepsMems != nil && s.keepsMems(d.Group, d.Mems)
	if at, found := s.statusOf(d.Group); !moves && found && at.Mems == d.Mems {
		return wide{}
	}
	has := s.opts.Groups.EffectiveMems(d.Group)
	switch {
	case has.IsEmpty() || has == d.Mems:
		return wide{}
	case moves && !has.IsSubsetOf(d.Mems):
		return s.beside(d, has, " until its pages have moved to "+d.Mems.String())
	}
	if err := s.opts.MayChange(d.Group, d.Mems); err != nil {
		return s.beside(d, has, ", and not "+d.Mems.String()+": "+err.Error())
	}
	return wide{}
}

// beside gives a container its memory nodes beside those that it has. Where that may not be written either it keeps what
// it has: with that desired, its group has what it gets, and others do not wait for the CPUs that it left.
func (s *Sets) beside(d place.Desired, has cpuset.Set, why string) wide {
	both := has.Union(d.Mems)
	if both == has {
		return wide{has, why}
	}
	if err := s.opts.MayChange(d.Group, both); err != nil {
		return wide{has, ", and not " + both.String() + ": " + err.Error()}
	}
	return wide{both, why}
}

// ownCPUs is what fails where the agent cannot leave CPUs.
const ownCPUs = "CPUs of the agent itself"

// Shrink has the agent's own threads leave CPUs that it should not have.
func (s *Sets) Shrink() {
	if err := s.self.Shrink(s.online); err != nil {
		s.opts.Fail(ownCPUs, err)
	}
}

// Saw takes over what a pass found of the groups, by path.
func (s *Sets) Saw(groups []reconcile.Status) {
	s.annotateAll()
	s.groups = groups
	s.inventory.Saw(func(group string) cpuset.Set {
		at, found := s.statusOf(group)
		if !found || at.State != reconcile.StateApplied {
			return cpuset.Set{}
		}
		return at.CPUs
	})
	s.tellUnlisted()
}

// tellUnlisted has the log say which containers run that the runtime does not list, once.
func (s *Sets) tellUnlisted() {
	if now := strings.Join(inventory.Unlisted(s.inventory), ", "); now != s.unlisted {
		s.unlisted = now
		if now != "" {
			s.opts.Log.Warn("the runtime does not list containers whose processes run: they keep their CPUs until these end", "groups", now)
		}
	}
}

// statusOf returns what the last pass found of a group, if it saw it.
func (s *Sets) statusOf(group string) (at reconcile.Status, found bool) {
	i, found := slices.BinarySearchFunc(s.groups, group, func(g reconcile.Status, path string) int { return strings.Compare(g.Group, path) })
	if !found {
		return reconcile.Status{}, false
	}
	return s.groups[i], true
}

// PodOf returns the UID of the pod that a group belongs to, "" where nothing is desired of it.
func (s *Sets) PodOf(group string) string { return s.pods[group] }

// events returns what place reports, and keeps its placements to be written once the CPUs are.
func (s *Sets) events() []capability.Event {
	var all []capability.Event
	for _, e := range s.inventory.Events() {
		if e.Reason != "" {
			all = append(all, capability.Event{PodUID: e.PodUID, Reason: e.Reason, Text: e.Text, Warning: e.Warning})
		}
		if e.Annotation != nil || e.Unplaced || e.Answered {
			s.decided = append(s.decided, e)
		}
	}
	return all
}

// annotateAll writes the placements that were decided.
func (s *Sets) annotateAll() {
	for _, e := range s.decided {
		s.annotate(e)
	}
	s.decided = nil
}

// annotate writes a placement that was decided here to its pod, or removes one that
// the pod has nothing of, or answers its move.
func (s *Sets) annotate(e place.Event) {
	p := s.inventory.Pod(e.PodUID)
	if s.cluster == nil || p == nil || p.Object.UID == "" {
		return
	}
	switch {
	case e.Annotation != nil:
		value := e.Annotation.Encode()
		s.cluster.Annotate(p.Object, v1alpha1.AnnotationPlacement, &value)
	case e.Unplaced:
		s.cluster.Annotate(p.Object, v1alpha1.AnnotationPlacement, nil)
	}
	switch {
	case e.Refused != nil:
		value := e.Refused.Encode()
		s.cluster.Annotate(p.Object, v1alpha1.AnnotationMove, &value)
	case e.Answered:
		s.cluster.Annotate(p.Object, v1alpha1.AnnotationMove, nil)
	}
}
