package reconcile

import (
	"errors"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/berth-project/berth/internal/engine/apply"
	"github.com/berth-project/berth/internal/engine/journal"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/value/cpuset"
)

const (
	// reassert is how often the Reconciler checks a settled group.
	reassert = 15 * time.Second
	// For watchFor the Reconciler checks a touched group every watchEvery: the kubelet writes the group of a pod some
	// time after the groups of its containers.
	watchFor   = 5 * time.Second
	watchEvery = time.Second
)

// Options configure a Reconciler.
type Options struct {
	// Host provides the groups.
	Host *cgroup.Host
	// Journal is the journal that the Applier writes to.
	Journal *journal.Journal
	// Applier changes the host.
	Applier *apply.Applier
	// Systemd reports whether systemd runs here and the Applier can reach it. The Reconciler then sets lists of
	// systemd's units through systemd where that helps.
	Systemd bool
	// Log receives what people look for afterwards. Report receives what people must know about quotas, and Fail the
	// errors of quotas, both at once. Each may be nil.
	Log    *slog.Logger
	Report func(Event)
	Fail   func(what string, err error)
	// Owners are the owners of the desired settings. The Reconciler restores an entry of these owners when its target
	// is not desired any more.
	Owners []plan.Owner
	// Answered reports whether Berth answered the container runtime this list for a group: its CPUs, or with mems its
	// memory nodes. A nil Answered knows of no answer.
	Answered func(group string, mems bool, list cpuset.Set) bool
	// Held returns an error if another part of Berth has a target on record. The Reconciler then does not write a
	// target that its own journal does not have yet. A nil Held knows of no other part.
	Held func(plan.Target) error
}

// Reconciler maintains the desired settings. It is not safe for concurrent use.
type Reconciler struct {
	opts    Options
	way     way
	desired map[string]wanted
	objects map[string]*object
	singles singles
	given
	// order has the paths of the objects, groups their last reported statuses.
	order  []string
	groups []Status
	// stale is true if the desired settings changed since the last pass. expandAt is when to look for groups below
	// again.
	stale      bool
	expandAt   time.Duration
	unrestored Unrestored
	now        time.Duration
	report     Report
	between    Report // what happened between two passes
}

// given is the argument of the last Want.
type given struct {
	settings []plan.Desired
	// more is true if settings is not all that is desired: Want was not called, or Record or Urgent followed it.
	more bool
}

// Wanted reports whether desired equals the argument of the last Want, in order. It is false after Record or Urgent
// added settings, which may come to nothing.
func (g *given) Wanted(desired []plan.Desired) bool {
	return !g.more && slices.Equal(desired, g.settings)
}

// New returns a Reconciler without desired settings. It restores nothing before the first Want: until then it does not
// know what is desired.
func New(opts Options) *Reconciler {
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	if opts.Report == nil {
		opts.Report = func(Event) {}
	}
	if opts.Fail == nil {
		opts.Fail = func(string, error) {}
	}
	r := &Reconciler{
		opts: opts, way: way{systemd: opts.Systemd}, desired: map[string]wanted{}, objects: map[string]*object{}, given: given{more: true},
	}
	r.singles = singles{opts: &r.opts, all: map[plan.Target]*single{}}
	if hier, err := opts.Host.Hierarchy(cgroup.CPUSet); err == nil {
		r.way.version = hier.Version
	}
	if hier, err := opts.Host.Hierarchy(cgroup.CPU); err == nil {
		r.way.cpu = hier.Version
	}
	return r
}

// Want replaces all desired settings. Nothing happens before the next Pass, which also restores the targets in the
// journal that are not desired.
func (r *Reconciler) Want(desired []plan.Desired) {
	r.given = given{settings: desired}
	var kept []string // keeps what is known of other writers of groups below; expand drops ended groups
	for path := range r.objects {
		if _, own := r.desired[path]; !own {
			kept = append(kept, path)
		}
	}
	files, others := split(desired)
	r.desired = byGroup(files)
	r.singles.want(others)
	r.stale = true
	r.settle(withBelow(r.desired, kept))
}

// Touch tells the Reconciler that another program has just written to a group, or is about to. The next Pass checks the
// group, and so does each Pass a second after the last for some seconds. As long as nothing changes, a check costs the
// reads of a settled group. Touch ignores groups without desired settings.
func (r *Reconciler) Touch(group string) {
	if o := r.objects[group]; o != nil {
		o.due, o.retry, o.watched = r.now, Retry{}, r.now+watchFor
	}
	r.singles.touch(group)
}

// settle makes the set of objects equal to the groups in desired.
func (r *Reconciler) settle(desired map[string]wanted) {
	for path, o := range r.objects {
		if _, stays := desired[path]; !stays {
			r.concede(o)
			_ = o.close() // only used to read
			delete(r.objects, path)
		}
	}
	for path, w := range desired {
		r.object(path, w)
	}
	r.order = slices.Sorted(maps.Keys(r.objects))
	r.expandAt = r.now
}

// object returns the object of a group, with its new desired settings.
func (r *Reconciler) object(path string, w wanted) *object {
	o := r.objects[path]
	if o == nil {
		o = newObject(path, w)
		r.objects[path] = o
	}
	o.take(w)
	return o
}

// expand extends desired settings to the groups below where a setting asks for that.
func (r *Reconciler) expand() {
	if r.way.version != 1 || r.now < r.expandAt {
		return
	}
	var found []string
	for above, w := range r.desired {
		found = append(found, below(r.opts.Host, above, w)...)
	}
	all := withBelow(r.desired, found)
	if len(all) > len(r.desired) || len(r.objects) > len(all) {
		r.settle(all)
	}
	r.expandAt = r.now + reassert
}

// below returns the groups below path that get the same settings.
func below(host *cgroup.Host, path string, w wanted) []string {
	if len(w.below(path)) == 0 {
		return nil
	}
	below, err := cgroup.Peek(host, path, func(g *cgroup.Group) ([]string, error) { return g.Below(cgroup.CPUSet) }, cgroup.CPUSet)
	if err != nil {
		return nil // the check of the group itself reports it
	}
	return below
}

// Pass checks the groups that are due, makes the necessary changes, and returns the longest time until the next Pass.
// now never decreases. The groups of the report belong to the Reconciler, and the caller must not change them. A pass
// with nothing due costs next to nothing.
func (r *Reconciler) Pass(now time.Duration) (Report, time.Duration) {
	r.now, r.report, r.between = now, r.between, Report{}
	r.expand()
	var due []*object
	for _, path := range r.order {
		if o := r.objects[path]; o.dirty || o.deferred || now >= o.due {
			due = append(due, o)
		}
	}
	if len(due) > 0 {
		r.work(due)
	}
	if len(due) > 0 || r.stale {
		r.groups = make([]Status, 0, len(r.order))
		for _, path := range r.order {
			r.groups = append(r.groups, r.objects[path].status())
		}
	}
	r.singles.pass(now, &r.report)
	r.restore()
	r.report.Groups, r.report.Others, r.report.Limits = r.groups, r.singles.statuses(), r.opts.Applier.Limits()
	return r.report, r.next()
}

// next returns how long nothing will be due.
func (r *Reconciler) next() time.Duration {
	next := r.singles.next(r.now, reassert)
	for _, o := range r.objects {
		next = min(next, max(o.due-r.now, 0))
	}
	return r.unrestored.next(r.now, next)
}

// work checks objects and applies the desired settings where necessary.
func (r *Reconciler) work(due []*object) {
	var settings []plan.Setting
	observed := map[plan.Target]plan.Value{}
	var adopt []plan.Change
	for _, o := range due {
		l := r.look(o)
		settings = append(settings, l.settings...)
		adopt = append(adopt, l.adopt...)
		maps.Copy(observed, l.observed)
	}
	if len(adopt) > 0 {
		if _, err := r.opts.Applier.Adopt(adopt); err != nil {
			r.report.fail(err)
		}
	}
	if err := plan.OneOwner(settings); err != nil {
		r.report.fail(err)
	}
	changes := r.unoccupied(plan.Diff(r.kinds(), settings, observed))
	begun := r.begin(changes)
	for _, res := range r.opts.write(changes) {
		r.applied(res)
		switch {
		case res.Wrote, deferred(res.Err): // a list that moves has a second change
			delete(begun, res.Change.Target)
		case !begun[res.Change.Target]:
		case errors.Is(res.Err, apply.ErrChanged), errors.Is(res.Err, apply.ErrSkipped):
			_ = r.opts.Journal.Forget(res.Change.Target) // best effort: Berth wrote nothing
		}
	}
	for _, o := range due {
		r.conclude(o)
	}
}

func (r *Reconciler) kinds() plan.Kinds { return r.opts.Applier.Kinds() }

// deferred reports whether systemd is about to write a change. It is false for a change that only waits for another
// deferred change.
func deferred(err error) bool {
	return errors.Is(err, apply.ErrDeferred) && !errors.Is(err, apply.ErrSkipped)
}

// begin journals the originals of all changes at once, which waits for the disk once instead of once for each change.
// It returns the journaled targets. The entry of a list that moves names its last value; its halves are journaled before
// their writes. A change that begin cannot journal is not written: the Applier tries each change again and reports the
// cause.
func (r *Reconciler) begin(changes []plan.Change) map[plan.Target]bool {
	begun := map[plan.Target]bool{}
	var first []plan.Change
	for _, c := range changes {
		e, known := r.opts.Journal.Entry(c.Target)
		if (!known || !e.IsOf(r.kinds(), c.ID, c.From)) && !begun[c.Target] {
			begun[c.Target] = true
			first = append(first, c)
		}
	}
	if len(first) < 2 || r.opts.Applier.Claim(first) != nil {
		return nil
	}
	return begun
}

// Record journals the values that the container runtime is about to write because of an answer. The settings are
// desired from now on. Record skips groups that do not exist yet and values that are in place. After an error the
// caller must not give the answer: the originals are not on disk.
func (r *Reconciler) Record(desired []plan.Desired) error {
	var changes []plan.Change
	groups := byGroup(desired)
	for _, path := range slices.Sorted(maps.Keys(groups)) {
		changes = append(changes, r.willWrite(r.add(path, groups[path]))...)
	}
	if err := r.opts.Applier.Record(changes); err != nil {
		return err
	}
	return r.opts.Applier.Note(changes)
}

// Urgent applies the desired settings of one group at once, without waiting for the next Pass. The settings are desired
// from now on. The next Pass reports the outcome, and checks again after a failure: that pass may move away other
// groups that are in the way. Urgent reports whether systemd must be asked for the group.
func (r *Reconciler) Urgent(group string, desired []plan.Desired) bool {
	r.report = r.between
	o := r.add(group, byGroup(desired)[group])
	r.work([]*object{o})
	r.between = r.report
	r.stale = true // the next report has other groups
	if o.state != StateApplied && !o.deferred {
		o.due, o.retry = r.now, Retry{}
	}
	return o.deferred
}

// add adds the desired settings of one more group.
func (r *Reconciler) add(path string, w wanted) *object {
	known := len(r.objects)
	r.desired[path], r.more = w, true
	o := r.object(path, w)
	if len(r.objects) > known {
		r.order = slices.Sorted(maps.Keys(r.objects))
	}
	return o
}

// Close releases all groups. It restores nothing: a caller that needs a restoration calls Want with nothing, then Pass.
func (r *Reconciler) Close() error {
	var errs []error
	for path, o := range r.objects {
		errs = append(errs, o.close())
		delete(r.objects, path)
	}
	return errors.Join(errs...)
}

func (r *Reconciler) event(o *object, reason, text string) {
	r.report.Events = append(r.report.Events, Event{Group: o.path, Workload: o.desired.first().Workload, Reason: reason, Text: text})
}
