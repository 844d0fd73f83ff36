package reconcile

import (
	"errors"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/berth-project/berth/internal/apply"
	"github.com/berth-project/berth/internal/cgroup"
	"github.com/berth-project/berth/internal/cpuset"
	"github.com/berth-project/berth/internal/journal"
	"github.com/berth-project/berth/internal/plan"
)

const (
	// reassert is how often a settled group is looked at.
	reassert = 15 * time.Second
	// watchFor is how long a touched group is looked at every watchEvery: the kubelet
	// writes the group of a pod some time after those of its containers.
	watchFor   = 5 * time.Second
	watchEvery = time.Second
)

// Options are what a Reconciler works with.
type Options struct {
	// Host has the groups.
	Host *cgroup.Host
	// Journal is the one that the Applier writes to.
	Journal *journal.Journal
	// Applier changes the host.
	Applier *apply.Applier
	// Systemd says that systemd runs here and the Applier can reach it: lists of
	// its units are then set through it, where that is of use.
	Systemd bool
	// Log gets what people look for afterwards, Report what they are to know about quotas,
	// and Fail what went wrong with them, at once. Each may be nil.
	Log    *slog.Logger
	Report func(Event)
	Fail   func(what string, err error)
	// Owners are those of what is desired: an entry of one of them whose target is not
	// desired any more is put back.
	Owners []plan.Owner
	// Movers are the owners of quotas that move (Quota): whether one still asks for what an
	// entry is about.
	Movers map[plan.Owner]func(journal.Entry) bool
	// Answered reports whether Berth answered the container runtime this list for a group: its CPUs, or
	// with mems its memory nodes. Nil knows of no answer.
	Answered func(group string, mems bool, list cpuset.Set) bool
	// Held says who else in Berth has a target on record, nil for nobody: what the journal does not have
	// yet is then not written. A nil Held knows of nobody.
	Held func(plan.Target) error
}

// Reconciler keeps the desired settings in effect. It is for one goroutine at a time.
type Reconciler struct {
	opts    Options
	way     way
	desired map[string]wanted
	objects map[string]*object
	singles singles
	given
	// order has the paths of the objects, groups what was last reported of them.
	order  []string
	groups []Status
	// stale says that what is desired changed since the last pass, expandAt when the groups
	// below are looked for again.
	stale      bool
	expandAt   time.Duration
	unrestored Unrestored
	now        time.Duration
	report     Report
	between    Report // what came between two passes
}

// given is what Want was given last.
type given struct {
	settings []plan.Desired
	// more says that it is not all that is desired: Want was not called, or Record or
	// Urgent came after it.
	more bool
}

// Wanted says that this, in this order, is all that is desired. What Record or Urgent was
// given counts as well, and may come to nothing: then it is not.
func (g *given) Wanted(desired []plan.Desired) bool {
	return !g.more && slices.Equal(desired, g.settings)
}

// New returns a Reconciler of which nothing is desired. Until the first Want it puts nothing back:
// it does not know yet what is desired.
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

// Want replaces everything desired. Nothing is done before the next Pass, which also puts
// back what is in the journal and not desired.
func (r *Reconciler) Want(desired []plan.Desired) {
	r.given = given{settings: desired}
	var kept []string // of groups below, what is known of other writers; expand drops those that ended
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

// Touch says that another program has just written to a group, or is about to: the next
// Pass looks at it, and for some seconds each one that comes a second after the last.
// As long as nothing changes that costs the reads of a settled group. Other groups
// are left out.
func (r *Reconciler) Touch(group string) {
	if o := r.objects[group]; o != nil {
		o.due, o.retry, o.watched = r.now, Retry{}, r.now+watchFor
	}
	r.singles.touch(group)
}

// settle makes the objects those that something is desired of.
func (r *Reconciler) settle(desired map[string]wanted) {
	for path, o := range r.objects {
		if _, stays := desired[path]; !stays {
			r.concede(o)
			_ = o.close() // only read through
			delete(r.objects, path)
		}
	}
	for path, w := range desired {
		r.object(path, w)
	}
	r.order = slices.Sorted(maps.Keys(r.objects))
	r.expandAt = r.now
}

// object returns the object that something is desired of, with that.
func (r *Reconciler) object(path string, w wanted) *object {
	o := r.objects[path]
	if o == nil {
		o = newObject(path, w)
		r.objects[path] = o
	}
	o.take(w)
	return o
}

// expand desires the same of the groups below those that ask for it.
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

// below returns the groups below one that get the same.
func below(host *cgroup.Host, path string, w wanted) []string {
	if len(w.below(path)) == 0 {
		return nil
	}
	g, err := host.Group(path, cgroup.CPUSet)
	if err != nil {
		return nil // its own look says so
	}
	defer g.Close()
	below, err := g.Below(cgroup.CPUSet)
	if err != nil {
		return nil
	}
	return below
}

// Pass looks at what is due, does what is needed and says when to come back at the
// latest. now never goes backwards. The groups of the report belong to the Reconciler and
// are not to be changed. A pass when nothing is due costs next to nothing.
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
	r.report.Groups, r.report.Others = r.groups, r.singles.statuses()
	return r.report, r.next()
}

// next is how long nothing will be due.
func (r *Reconciler) next() time.Duration {
	next := r.singles.next(r.now, reassert)
	for _, o := range r.objects {
		next = min(next, max(o.due-r.now, 0))
	}
	return r.unrestored.next(r.now, next)
}

// work looks at objects and brings those that need it to what is desired.
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
			r.fail(err)
		}
	}
	if err := plan.OneOwner(settings); err != nil {
		r.fail(err)
	}
	changes := plan.Order(r.kinds(), r.unoccupied(plan.Diff(r.kinds(), settings, observed)))
	begun := r.begin(changes)
	for _, res := range r.opts.Applier.Apply(changes) {
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

// kinds is what the kinds of target say of their values.
func (r *Reconciler) kinds() plan.Kinds { return r.opts.Applier.Kinds() }

// deferred says that systemd is about to write a change, and not that it waits for one
// of those.
func deferred(err error) bool {
	return errors.Is(err, apply.ErrDeferred) && !errors.Is(err, apply.ErrSkipped)
}

// begin journals the originals of all changes at once, which waits for the disk once
// and not for each, and says of which. What cannot be journaled is not written: the
// Applier tries each one again, and says why.
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

// Record journals what the container runtime is about to write because of an answer
// that amounts to these, which count from now on. Groups that do not exist yet,
// and values that stand, are left out. With an error the answer must not be given: the
// originals are not on disk.
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

// Urgent brings one group to what is desired of it at once, which counts from now on,
// without waiting for the next Pass. That one reports what came of it, and looks again
// where it did not go well: other groups may be in the way that are to leave in that very
// pass. It says whether systemd is to be asked for it.
func (r *Reconciler) Urgent(group string, desired []plan.Desired) bool {
	r.report = r.between
	o := r.add(group, byGroup(desired)[group])
	r.work([]*object{o})
	r.between = r.report
	r.stale = true // the groups of the next report are others
	if o.state != StateApplied && !o.deferred {
		o.due, o.retry = r.now, Retry{}
	}
	return o.deferred
}

// add has what is desired of one more group count.
func (r *Reconciler) add(path string, w wanted) *object {
	known := len(r.objects)
	r.desired[path], r.more = w, true
	o := r.object(path, w)
	if len(r.objects) > known {
		r.order = slices.Sorted(maps.Keys(r.objects))
	}
	return o
}

// Limits says which side effects of writes last on this host, "" while nothing speaks for any.
func (r *Reconciler) Limits() string { return r.opts.Applier.Limits() }

// Close releases all groups. Nothing is put back: a caller that needs that desires
// nothing and makes a Pass before.
func (r *Reconciler) Close() error {
	var errs []error
	for path, o := range r.objects {
		errs = append(errs, o.close())
		delete(r.objects, path)
	}
	return errors.Join(errs...)
}

func (r *Reconciler) fail(err error) { r.report.Errors = append(r.report.Errors, err) }

func (r *Reconciler) event(o *object, reason, text string) {
	r.report.Events = append(r.report.Events, Event{Group: o.path, Workload: o.desired.first().Workload, Reason: reason, Text: text})
}
