package offline

import (
	"cmp"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"time"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability"
	"github.com/berth-project/berth/internal/capability/isolate"
	"github.com/berth-project/berth/internal/capability/isolate/cookies"
	"github.com/berth-project/berth/internal/capability/place"
	"github.com/berth-project/berth/internal/engine/journal"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/internal/linux/kernel"
	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/node/observed"
	"github.com/berth-project/berth/internal/value/cpuset"
	"github.com/berth-project/berth/internal/value/unit"
)

// Options are the dependencies of Work. Every field is required.
type Options struct {
	Root *hostfs.Root
	Host Host
	// Placed returns what each container has by the last decision.
	Placed func() *place.Snapshot
	// Standing returns the matching entries of the journal.
	Standing func(match func(journal.Entry) bool) []journal.Entry
	// Usage reads the CPU time that a group used.
	Usage func(group string) (unit.CPUTime, error)
	// Groups reads the CPUs of the root group.
	Groups Groups
	// Now is the time of day.
	Now func() time.Time
	Log *slog.Logger
	// Fail receives failures of the agent's own work.
	Fail func(what string, err error)
}

// Groups has the CPUs of groups.
type Groups interface {
	// EffectiveCPUs returns the CPUs that the processes of a group may run on, empty if unreadable.
	EffectiveCPUs(group string) cpuset.Set
}

// Host reads groups and the kernel's support for them. *cgroup.Host is a Host.
type Host interface {
	Prober
	cookies.Host
}

// Work is the offline work of this node. It is not safe for concurrent use.
type Work struct {
	opts Options
	// asked is the administrator's request, source where it is written.
	asked  v1alpha1.ResourceThreshold
	source string
	// limit is why offline work has no cores of its own although it should.
	limit       string
	boundary    isolate.Boundary
	decision    isolate.Decision
	last        last
	looks       looks
	moves       Moves
	overlap     overlap
	system      system
	ceiling     ceiling
	precedences precedences
	cookies     cookies.Offline
	scheduler   kernel.Scheduler
	// reported is about the limit, unread about an unreadable load, unshared about a missing cookie, unheld about a
	// precedence that the kernel does not enforce.
	reported, unread, unshared, unheld reported
	ended                              bool
}

// last has the facts of the last round: its topology, its offline pods, and the input of the last decision. limits is
// what the last pass said about lasting side effects of writes, and costly whether a move of the boundary has them.
type last struct {
	topology *topology.Topology
	pods     []observed.Pod
	node     isolate.Node
	limits   string
	costly   bool
}

// looks are the readings of /proc/stat.
type looks struct {
	// at is the time of the last reading. next is when a reading between two rounds is due, 0 for not before the next
	// round.
	at, next time.Duration
	cost     time.Duration // CPU time of one reading
	failed   error         // error of the last reading
}

// New returns a Work without knowledge. Without options it only describes itself.
func New(o Options) *Work {
	return &Work{
		opts: o, ceiling: ceiling{host: o.Host, root: o.Root, standing: o.Standing},
		precedences: precedences{host: o.Host, root: o.Root, date: o.Now},
		cookies:     cookies.New(o.Host),
	}
}

// closest is the minimum time between two readings.
const closest = 50 * time.Millisecond

// Decide implements capability.Decider. It passes the cores of offline work on. It returns as settings the precedence
// on a CPU, the cookie of offline threads, or the quota in place of cores.
func (w *Work) Decide(n *capability.Node) capability.Decision {
	if err := w.scheduler.Look(w.opts.Root, n.Now); err != nil {
		w.opts.Fail("scheduler of the kernel", err)
	}
	d := w.bound(n)
	if w.ended {
		return d
	}
	w.lookAtSystem(n)
	policy, source := n.Policies.CPUPolicy, n.Policies.CPUPolicySource
	here := *n
	here.Containers = n.Present
	w.precedences.reported = w.on()
	d.Add(w.precedences.decide(&here, policy))
	w.leave(n)
	d.Events = append(d.Events, w.unheld.event(w.precedences.unheld(w.unenforced()))...)
	if policy != v1alpha1.CPUPolicyCoreSched {
		source = ""
	}
	d.Settings = append(d.Settings, w.cookies.Decide(n.Now, source, w.precedences.offline, w.sharing(n))...)
	d.Touched = append(d.Touched, w.cookies.Touched()...)
	d.Events = append(d.Events, w.unshared.event(w.cookies.Problem())...)
	return d
}

// sharing returns what decides whether offline threads share a cookie.
func (w *Work) sharing(n *capability.Node) isolate.Sharing {
	support := &w.precedences.support
	s := isolate.Sharing{
		Koordlet: n.Koordlet, Identity: support.GroupIdentity.Support != kernel.Unsupported, Cores: w.decision.Exists,
	}
	if core := support.CoreScheduling; core.Support != kernel.Supported {
		s.Missing = cmp.Or(core.Note, core.Support.String())
	}
	return s
}

// bound decides how much offline work gets.
func (w *Work) bound(n *capability.Node) capability.Decision {
	var d capability.Decision
	w.last.topology, w.last.pods = n.Topology, n.OfflinePods
	if w.asked, w.source = n.Policies.Threshold, n.Policies.ThresholdSource; w.ended {
		w.asked = v1alpha1.ResourceThreshold{}
	}
	if w.limit = w.limitOf(n.Obstacle); !w.byQuota() {
		w.ceiling.drop()
	}
	switch {
	case !w.on() || w.limit != "" || w.byQuota():
		w.boundary, w.last.node, w.decision, w.looks = isolate.Boundary{}, isolate.Node{}, isolate.Decision{}, looks{}
		if w.byQuota() {
			d.Settings, w.limit = w.quota(n)
		}
	case n.Obstacle.Suspends(): // nothing is written, and everything stays
		w.looks.next = 0
	default:
		w.last.node = isolate.Node{
			Policy: isolate.PolicyOf(w.asked), Movable: w.movable(n), Offline: n.HasOffline, LookCost: w.looks.cost,
			Costly: w.last.costly,
		}
		if n.Now-w.looks.at >= closest {
			w.look(n.Now)
		}
		w.turn(n.Now)
	}
	if w.decision.Reason == isolate.TooFew {
		w.limit = string(isolate.TooFew)
	}
	n.Offline = w.offered()
	d.Events = append(w.reported.event(cmp.Or(w.limit, w.overlap.text())), w.unread.event(w.blind())...)
	return d
}

// blind says why the boundary does not follow the load, "" if it does.
func (w *Work) blind() string {
	if w.looks.failed == nil || !w.decision.Exists {
		return ""
	}
	return fmt.Sprintf("%s: %v; offline work has what it is guaranteed once that lasts %s", isolate.Unread, w.looks.failed, isolate.Window)
}

// on reports whether an administrator asks for cores of offline work, or for a quota.
func (w *Work) on() bool { return w.asked.Enable != nil && *w.asked.Enable }

// byQuota reports whether a quota replaces cores.
func (w *Work) byQuota() bool {
	policy := w.asked.CPUSuppressPolicy
	return w.on() && policy != nil && *policy == v1alpha1.CPUSuppressCFSQuota
}

// limitOf says why offline work has no cores of its own although it should, "" if it has.
func (w *Work) limitOf(obstacle observed.Obstacle) string {
	if !w.on() || !anyHere(w.last.pods) || w.byQuota() || obstacle.Suspends() { // a quota needs no CPU sets
		return ""
	}
	return obstacle.Message
}

// anyHere reports whether there is offline work.
func anyHere(offline []observed.Pod) bool {
	return slices.ContainsFunc(offline, func(w observed.Pod) bool { return w.Here })
}

// quota returns the quota of offline work. It also returns why there is none although there should be, or why the quota
// no longer follows the load.
func (w *Work) quota(n *capability.Node) ([]plan.Desired, string) {
	node := isolate.Node{Policy: isolate.PolicyOf(w.asked), Movable: w.movable(n)}
	before := w.ceiling.quota
	settings, err := w.ceiling.decide(n.Now, node, n.OfflinePods, n.Present)
	if now := w.ceiling.quota; now > 0 && now != before {
		w.moves.add(w.opts.Now(), w.ceiling.why, before > 0)
	}
	const policy = "cpuSuppressPolicy cfsQuota: "
	if reason := w.unenforced(); reason != "" && len(settings) > 0 {
		return settings, policy + reason
	}
	if err != nil {
		return settings, policy + err.Error()
	}
	return settings, ""
}

// unenforced says why the kernel enforces no quota and no idle state of a group, "" if it does. The desired settings
// stay: they take effect at once when the BPF scheduler ends.
func (w *Work) unenforced() string {
	if w.scheduler.Name == "" {
		return ""
	}
	return "unsupported: sched_ext " + w.scheduler.Name + " has all threads, and the kernel holds none of them to cpu.max or cpu.idle"
}

// movable returns the cores that either side may have.
func (w *Work) movable(n *capability.Node) []isolate.Core {
	t := n.Topology
	if t == nil {
		return nil
	}
	taken := t.Reserved.Union(n.Isolated).Union(n.Exclusive)
	return isolate.Movable(t, n.Online.Intersect(w.opts.Groups.EffectiveCPUs("")), taken)
}

// heed learns from a pass whether each move makes threads forget for good which CPUs they chose. Where the agent sees
// the threads, a pass says so or denies it by the effect of a write. Where it sees none, the version of the kernel
// decides.
func (w *Work) heed(limits string) {
	if limits == w.last.limits {
		return
	}
	older, err := kernel.Before(w.opts.Root, 6, 2)
	if err != nil {
		w.opts.Fail("isolate", err)
	}
	w.last.limits, w.last.costly = limits, limits != "" && older
}

// look reads the CPU time of the CPUs.
func (w *Work) look(now time.Duration) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before, untimed := kernel.ThreadCPUTime()
	w.looks.at = now
	spent, err := kernel.CPUsSpent(w.opts.Root)
	if w.looks.failed = err; err != nil {
		w.opts.Fail("isolate", err)
		return
	}
	w.boundary.Look(max(now, 1), spent)
	if after, err := kernel.ThreadCPUTime(); err == nil && untimed == nil {
		w.looks.cost = after - before
	}
}

// turn decides the boundary again.
func (w *Work) turn(now time.Duration) {
	existed := w.decision.Exists
	w.decision = w.boundary.Decide(max(now, 1), w.last.node)
	d := &w.decision
	if w.looks.next = 0; d.Next < time.Second {
		w.looks.next = now + d.Next
	}
	if !d.Changed {
		return
	}
	w.moves.add(w.opts.Now(), d.Reason, existed && d.Exists)
	w.opts.Log.Info("boundary", "offline", d.Offline.String(), "online", d.Online.String(), "reason", string(d.Reason))
}

// Next returns when Turn is due at the latest.
func (w *Work) Next(next time.Duration) time.Duration {
	if w.looks.next == 0 {
		return next
	}
	return min(next, w.looks.next)
}

// Turn reads the load between two rounds, if due, and reports whether the boundary moved: then the next round is due.
func (w *Work) Turn(now time.Duration) bool {
	if w.looks.next == 0 || now < w.looks.next {
		return false
	}
	w.look(now)
	w.turn(now)
	return w.decision.Changed
}

// End makes the next rounds desire no boundary: the agent ends.
func (w *Work) End() {
	w.ended = true
	w.cookies.Drop()
}

// offered returns the cores that offline work has, or gets with its first container.
func (w *Work) offered() capability.Offline {
	d := &w.decision
	o := capability.Offline{Size: d.Size, Low: d.Figures.Low, Why: w.moves.Moved}
	if !d.Exists {
		o.Size, o.Why = o.Low, string(isolate.Started)
	}
	for _, c := range d.Cores {
		o.Cores = append(o.Cores, c.CPUs)
	}
	return o
}

// reported is the text of the last event about one subject, "" if it is over.
type reported string

// event returns an IsolationLimited event for a new text, none for "".
func (r *reported) event(text string) []capability.Event {
	before := string(*r)
	if *r = reported(text); text == "" || text == before {
		return nil
	}
	return []capability.Event{{Reason: v1alpha1.EventIsolationLimited, Text: text, Warning: true}}
}
