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
	"github.com/berth-project/berth/internal/cookies"
	"github.com/berth-project/berth/internal/hostfs"
	"github.com/berth-project/berth/internal/inventory"
	"github.com/berth-project/berth/internal/isolate"
	"github.com/berth-project/berth/internal/journal"
	"github.com/berth-project/berth/internal/kernel"
	"github.com/berth-project/berth/internal/plan"
	"github.com/berth-project/berth/internal/unit"
)

// Options is what Work needs from its surroundings. Every field is required.
type Options struct {
	Root      *hostfs.Root
	Host      Host
	Inventory *inventory.Inventory
	// Touch has the next pass look at a group.
	Touch func(group string)
	// Standing returns the entries of the journal that match.
	Standing func(match func(journal.Entry) bool) []journal.Entry
	// Usage reads the CPU time that a group used.
	Usage func(group string) (unit.CPUTime, error)
	// Groups reads which CPUs the root group has.
	Groups inventory.Effective
	// Now is the time of day.
	Now func() time.Time
	Log *slog.Logger
	// Fail is called with a failure of the agent's own work.
	Fail func(what string, err error)
}

// Host is what is read of groups, and of what the kernel has for them. *cgroup.Host is one.
type Host interface {
	Prober
	cookies.Host
}

// Work is the offline work of this node. It is for one goroutine at a time.
type Work struct {
	opts Options
	// asked is what the administrator asks for, source where that is written.
	asked  v1alpha1.ResourceThreshold
	source string
	// limit is why offline work has no cores of its own although it should.
	limit    string
	boundary isolate.Boundary
	// node is what the last decision went by.
	node     isolate.Node
	decision isolate.Decision
	looks
	moves Moves
	overlap
	system      system
	ceiling     ceiling
	precedences precedences
	cookies     cookies.Offline
	scheduler   kernel.Scheduler
	// reported is of the limit, unread of a load that cannot be read, unshared of why there is no
	// cookie, unheld of a precedence that the kernel does not keep.
	reported, unread, unshared, unheld reported
	ended                              bool
}

// looks are those at /proc/stat.
type looks struct {
	// at is when the last one was, next when the next one is due between two rounds, 0 for
	// not before the next round.
	at, next time.Duration
	cost     time.Duration // CPU time of one
	failed   error         // the last one
}

// New returns Work of which nothing is known. Without options it only describes itself.
func New(o Options) *Work {
	return &Work{
		opts: o, ceiling: ceiling{host: o.Host, root: o.Root, standing: o.Standing},
		precedences: precedences{host: o.Host, root: o.Root, date: o.Now},
		cookies:     cookies.New(o.Host, o.Touch),
	}
}

// closest is how close to each other two looks may be.
const closest = 50 * time.Millisecond

// Decide implements capability.Decider. It hands the cores of offline work on, and desires
// itself who goes first on a CPU, the cookie of offline threads, or the quota that is in place of
// cores.
func (w *Work) Decide(n *capability.Node) capability.Decision {
	if err := w.scheduler.Look(w.opts.Root, n.Now); err != nil {
		w.opts.Fail("scheduler of the kernel", err)
	}
	d := w.bound(n)
	if w.ended {
		return d
	}
	w.lookAtSystem(n)
	policy, source := w.opts.Inventory.CPUPolicy()
	here := *n
	here.Containers, _ = w.opts.Inventory.Here()
	w.precedences.reported = w.on()
	d.Add(w.precedences.decide(&here, policy))
	w.leave(n)
	d.Events = append(d.Events, w.unheld.event(w.precedences.unheld(w.unenforced()))...)
	if policy != v1alpha1.CPUPolicyCoreSched {
		source = ""
	}
	d.Settings = append(d.Settings, w.cookies.Decide(n.Now, source, w.precedences.offline, w.sharing(n))...)
	d.Events = append(d.Events, w.unshared.event(w.cookies.Problem())...)
	return d
}

// sharing is what decides whether offline threads share a cookie.
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

// bound decides how much offline work has.
func (w *Work) bound(n *capability.Node) capability.Decision {
	var d capability.Decision
	if w.asked, w.source = w.opts.Inventory.Threshold(); w.ended {
		w.asked = v1alpha1.ResourceThreshold{}
	}
	obstacle := w.opts.Inventory.Obstacle()
	if w.limit = w.limitOf(obstacle); !w.byQuota() {
		w.ceiling.drop()
	}
	switch {
	case !w.on() || w.limit != "" || w.byQuota():
		w.boundary, w.node, w.decision, w.looks = isolate.Boundary{}, isolate.Node{}, isolate.Decision{}, looks{}
		if w.byQuota() {
			d.Settings, w.limit = w.quota(n)
		}
	case obstacle.Suspends(): // nothing is written, and what stands stays
		w.next = 0
	default:
		w.node = isolate.Node{
			Policy: isolate.PolicyOf(w.asked), Movable: w.movable(n), Offline: w.opts.Inventory.HasOffline(), LookCost: w.cost,
		}
		if n.Now-w.at >= closest {
			w.look(n.Now)
		}
		w.turn(n.Now)
	}
	if w.decision.Reason == isolate.TooFew {
		w.limit = string(isolate.TooFew)
	}
	n.Offline = w.offered()
	d.Events = append(w.reported.event(cmp.Or(w.limit, w.text())), w.unread.event(w.blind())...)
	return d
}

// blind says why the boundary does not follow the load, "" where it does.
func (w *Work) blind() string {
	if w.failed == nil || !w.decision.Exists {
		return ""
	}
	return fmt.Sprintf("%s: %v; offline work has what it is guaranteed once that lasts %s", isolate.Unread, w.failed, isolate.Window)
}

// on says whether an administrator asks for cores of offline work, or for a quota.
func (w *Work) on() bool { return w.asked.Enable != nil && *w.asked.Enable }

// byQuota says that it is a quota in place of cores.
func (w *Work) byQuota() bool {
	policy := w.asked.CPUSuppressPolicy
	return w.on() && policy != nil && *policy == v1alpha1.CPUSuppressCFSQuota
}

// limitOf says why offline work has no cores of its own although it should, "" where it has.
func (w *Work) limitOf(obstacle inventory.Obstacle) string {
	_, offline := w.opts.Inventory.Here()
	if !w.on() || !anyHere(offline) || w.byQuota() || obstacle.Suspends() { // a quota needs no CPU sets
		return ""
	}
	return obstacle.Message
}

// anyHere says whether there is offline work.
func anyHere(offline []isolate.Work) bool {
	return slices.ContainsFunc(offline, func(w isolate.Work) bool { return w.Here })
}

// quota returns the quota of offline work, and why it has none although it should, or one that
// no longer follows the load.
func (w *Work) quota(n *capability.Node) ([]plan.Desired, string) {
	node := isolate.Node{Policy: isolate.PolicyOf(w.asked), Movable: w.movable(n)}
	present, offline := w.opts.Inventory.Here()
	before := w.ceiling.quota
	settings, err := w.ceiling.decide(n.Now, node, offline, present)
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

// unenforced says why the kernel holds no group to its quota and lets no idle one yield, "" where
// it does. What is desired of them stays: it holds at once when the BPF scheduler ends.
func (w *Work) unenforced() string {
	if w.scheduler.Name == "" {
		return ""
	}
	return "unsupported: sched_ext " + w.scheduler.Name + " has all threads, and the kernel holds none of them to cpu.max or cpu.idle"
}

// movable returns the cores that either side may have.
func (w *Work) movable(n *capability.Node) []isolate.Core {
	t := w.opts.Inventory.Topology()
	if t == nil {
		return nil
	}
	taken := t.Reserved.Union(n.Isolated).Union(w.opts.Inventory.Exclusive())
	return isolate.Movable(t, n.Online.Intersect(w.opts.Groups.EffectiveCPUs("")), taken)
}

// look reads what the CPUs did.
func (w *Work) look(now time.Duration) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before, untimed := kernel.ThreadCPUTime()
	w.at = now
	spent, err := kernel.CPUsSpent(w.opts.Root)
	if w.failed = err; err != nil {
		w.opts.Fail("isolate", err)
		return
	}
	w.boundary.Look(max(now, 1), spent)
	if after, err := kernel.ThreadCPUTime(); err == nil && untimed == nil {
		w.cost = after - before
	}
}

// turn has the boundary move.
func (w *Work) turn(now time.Duration) {
	existed := w.decision.Exists
	w.decision = w.boundary.Decide(max(now, 1), w.node)
	d := &w.decision
	if w.next = 0; d.Next < time.Second {
		w.next = now + d.Next
	}
	if !d.Changed {
		return
	}
	w.moves.add(w.opts.Now(), d.Reason, existed && d.Exists)
	w.opts.Log.Info("boundary", "offline", d.Offline.String(), "online", d.Online.String(), "reason", string(d.Reason))
}

// Next is when Turn is due at the latest.
func (w *Work) Next(next time.Duration) time.Duration {
	if w.next == 0 {
		return next
	}
	return min(next, w.next)
}

// Turn looks at the load between two rounds, where that is due, and says whether the boundary
// moved: then the next round is due.
func (w *Work) Turn(now time.Duration) bool {
	if w.next == 0 || now < w.next {
		return false
	}
	w.look(now)
	w.turn(now)
	return w.decision.Changed
}

// End has the next rounds desire no boundary: the agent ends.
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

// reported is the text of the last event about one thing, "" where it is over.
type reported string

// event returns IsolationLimited with a text that is new, none for "".
func (r *reported) event(text string) []capability.Event {
	before := string(*r)
	if *r = reported(text); text == "" || text == before {
		return nil
	}
	return []capability.Event{{Reason: v1alpha1.EventIsolationLimited, Text: text, Warning: true}}
}
