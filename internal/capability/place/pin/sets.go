package pin

import (
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability"
	"github.com/berth-project/berth/internal/capability/place"
	"github.com/berth-project/berth/internal/capability/place/assignment"
	"github.com/berth-project/berth/internal/capability/place/hardware"
	"github.com/berth-project/berth/internal/capability/place/self"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/engine/reconcile"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/internal/node/cluster"
	"github.com/berth-project/berth/internal/node/inventory"
	"github.com/berth-project/berth/internal/node/nri"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// Answers stores Berth's answers to the runtime on disk.
type Answers interface {
	// Recall returns the answers of an earlier agent of this boot, by container, and an error for unreadable answers.
	Recall() (map[string]inventory.Answered, error)
	// Save writes the answer that the runtime is about to get; current returns every answer that is valid after it.
	Save(e nri.Event, r nri.Reply, current func(...string) map[string]inventory.Answered) error
}

// Reconciler applies desired settings, also ahead of its next pass.
type Reconciler interface {
	// Record journals what the runtime is about to write.
	Record(desired []plan.Desired) error
	// Urgent writes the desired settings of one group at once: a container in it is about to run.
	Urgent(group string, desired []plan.Desired)
	// Standing returns what the reconciler leaves on the host.
	Standing() reconcile.Standing
}

// Pods are the pods of the cluster.
type Pods interface {
	// Annotate sets an annotation of a pod; nil removes it.
	Annotate(pod cluster.Object, key string, value *string)
}

// Options are the dependencies of Sets. Every field is required.
type Options struct {
	Root    *hostfs.Root
	Host    *cgroup.Host
	Log     *slog.Logger
	Groups  inventory.Effective
	Answers Answers
	// Self is the group that the agent runs in.
	Self self.Self
	// Hardware is what Sets reads of the machine and its kubelet.
	Hardware *hardware.Node
	// Fail receives failures of the agent's own work.
	Fail func(what string, err error)
	// MayChange returns nil if the memory nodes of a running group may change to these now, otherwise the obstacle.
	MayChange func(group string, to cpuset.Set) error
	// Reconciler applies the decisions.
	Reconciler Reconciler
}

// Sets maintains the CPU sets of this node as place decides them. It is not safe for concurrent use.
type Sets struct {
	opts       Options
	inventory  *inventory.Inventory
	assignment *assignment.Assignment
	cluster    Pods // nil on a host without Kubernetes
	self       self.Self
	last       last
	// pages has the pages that localize moves, by group. wide has the containers that do not have their desired memory
	// nodes yet. found is what the last pass found.
	pages     map[string]capability.Pages
	wide      map[string]wide
	found     reconcile.Report
	said      said
	borrowing borrowing
	asked     asked
	// decided are the placements to write after the CPUs.
	decided []place.Event
	// touched are the groups that the next pass must check.
	touched []string
	// unlisted are the groups, as last logged, that run although the runtime does not list them.
	unlisted string
}

// last is what the last decision says to other capabilities.
type last struct {
	// unlimited are the groups without a quota. reserved is the number of exclusive CPUs of the groups that retain their
	// quota.
	unlimited map[string]bool
	reserved  map[string]int
	// exclusive are the exclusive CPUs of pods, and those of offline work.
	exclusive cpuset.Set
	// wide has the desired memory nodes of groups whose pages must move first.
	wide map[string]cpuset.Set
	// pods has the UID of the pod of every group with desired settings.
	pods map[string]string
}

// New returns Sets for an Inventory and its Assignment. Answers of an earlier agent of the same boot remain valid.
func New(opts Options, inv *inventory.Inventory, cpus *assignment.Assignment) *Sets {
	answered, err := opts.Answers.Recall()
	if err != nil {
		opts.Log.Warn("answers to the runtime ignored", "error", err)
	}
	inv.Containers().Recall(answered)
	return &Sets{opts: opts, inventory: inv, assignment: cpus, self: opts.Self, borrowing: newBorrowing(opts.Host, cpus)}
}

// Join makes the node part of a cluster.
func (s *Sets) Join(pods Pods) { s.cluster = pods }

// Decide implements capability.Decider.
func (s *Sets) Decide(n *capability.Node) capability.Decision {
	s.annotateAll() // those of the last round, if it made no pass
	s.pages, s.last.wide = n.Pages, map[string]cpuset.Set{}
	s.assignment.SetOffline(n.Offline)
	d := capability.Decision{Unjournaled: true}
	if d.Held = !s.known(); !d.Held {
		s.borrow(n.Now)
		d.Settings, s.last.exclusive = s.desired(), s.assignment.Exclusive().Union(s.assignment.Offline())
	}
	d.Events = s.events()
	d.Touched, s.touched = s.touched, nil
	n.Unlimited, n.Reserved, n.Exclusive = s.last.unlimited, s.last.reserved, s.last.exclusive
	n.Wide, n.Pods = s.last.wide, s.last.pods
	return d
}

// known reports whether enough is known to change or restore CPU sets.
func (s *Sets) known() bool { return s.inventory.Settled(s.cluster != nil) }

// asked has the desired state of containers and pods, and the resulting settings of their groups.
type asked struct {
	containers []place.Desired
	pods       []place.DesiredPod
	settings   []plan.Desired
	// spare is the previous list, reused as memory for the next one.
	spare []place.Desired
}

// desired returns the desired settings of the groups. It also stores which groups run without a quota, and the CPUs for
// the agent's own group.
func (s *Sets) desired() []plan.Desired {
	containers, pods := s.assignment.Desired(s.asked.spare[:0])
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

// settings returns the group settings for the desired state of containers and pods.
func (s *Sets) settings(containers []place.Desired, pods []place.DesiredPod) []plan.Desired {
	all := make([]plan.Desired, 0, len(containers)+len(pods))
	s.last.pods, s.last.unlimited, s.last.reserved = map[string]string{}, map[string]bool{}, map[string]int{}
	for _, d := range containers {
		all = append(all, d.Settings()...)
		s.last.pods[d.Group], s.last.unlimited[d.Group] = d.PodUID, d.NoQuota
		if d.Pinned && !d.NoQuota {
			s.last.reserved[d.Group] = d.CPUs.Difference(d.Borrowed).Size()
		}
	}
	for _, d := range pods {
		all = append(all, d.Settings()...)
		s.last.pods[d.Group], s.last.unlimited[d.Group] = d.PodUID, d.NoQuota
	}
	return all
}

// wide has the memory nodes of a group for now, if they are not the desired nodes, and the reason.
type wide struct {
	mems cpuset.Set
	why  string
}

// kept returns the memory nodes of a container for now, if the desired nodes may not be written. The loss of a node
// moves all pages on it, and each write takes time. Its why is empty if there is no obstacle.
func (s *Sets) kept(d place.Desired) wide {
	if d.Mems.IsEmpty() {
		return wide{}
	}
	pages, found := s.pages[d.Group]
	moves := found && pages.Stay(d.Mems)
	if moves {
		s.last.wide[d.Group] = d.Mems
	}
	if at, seen := s.found.Of(d.Group); !moves && seen && at.Mems == d.Mems {
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

// beside gives a container the desired memory nodes in addition to its present nodes. If these may not be written
// either, the container retains its nodes. They are then desired, so that its group is settled and other groups do not
// wait for the CPUs that it left.
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

// ownCPUs names the failed work if the agent cannot leave CPUs.
const ownCPUs = "CPUs of the agent itself"

// Shrink moves the agent's own threads off CPUs that it should not use.
func (s *Sets) Shrink() {
	if err := s.self.Shrink(s.opts.Hardware.CPUs.Online); err != nil {
		s.opts.Fail(ownCPUs, err)
	}
}

// Saw stores what a pass found.
func (s *Sets) Saw(_ time.Duration, r *reconcile.Report) {
	s.annotateAll()
	s.found = *r
	s.tellUnlisted()
}

// tellUnlisted logs once which containers run although the runtime does not list them.
func (s *Sets) tellUnlisted() {
	if now := strings.Join(inventory.Unlisted(s.inventory), ", "); now != s.unlisted {
		s.unlisted = now
		if now != "" {
			s.opts.Log.Warn("the runtime does not list containers whose processes run: they keep their CPUs until these end", "groups", now)
		}
	}
}

// events returns the events of place, and stores its placements to write after the CPUs.
func (s *Sets) events() []capability.Event {
	var all []capability.Event
	for _, e := range s.assignment.Events() {
		if e.Reason != "" {
			all = append(all, capability.Event{PodUID: e.PodUID, Reason: e.Reason, Text: e.Text, Warning: e.Warning})
		}
		if e.Annotation != nil || e.Unplaced || e.Answered {
			s.decided = append(s.decided, e)
		}
	}
	return all
}

// annotateAll writes the decided placements.
func (s *Sets) annotateAll() {
	for _, e := range s.decided {
		s.annotate(e)
	}
	s.decided = nil
}

// annotate writes a placement that was decided here to its pod, removes a placement that the pod does not have any
// more, or answers its move.
func (s *Sets) annotate(e place.Event) {
	p := s.inventory.Pods.Pod(e.PodUID)
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
