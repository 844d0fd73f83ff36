package apply

import (
	"errors"
	"fmt"
	"time"

	"github.com/berth-project/berth/internal/cgroup"
	"github.com/berth-project/berth/internal/cpuset"
	"github.com/berth-project/berth/internal/journal"
	"github.com/berth-project/berth/internal/plan"
)

// Host opens groups. *cgroup.Host is one.
type Host interface {
	Group(path string) (*cgroup.Group, error)
}

// Units has systemd write the lists of its units, so that it does not undo them.
type Units interface {
	// SetList sets CPUs or memory nodes of a unit until the next boot, and returns
	// when systemd has done it. With cgroup.Inherit systemd forgets them; the file
	// is left to the caller. One that is asked later returns ErrDeferred.
	SetList(unit string, k cgroup.Knob, v cgroup.Value) error
}

// Step names a moment between two steps of a change or of its restoration.
type Step string

// The steps, in the order in which they are reached. A change passes those
// from StepRead to StepVerified, without StepBegun when its target has an
// entry already; a restoration passes the others.
const (
	StepRead     Step = "the value in force was read"
	StepBegun    Step = "the original is journaled"
	StepIntended Step = "the intent is journaled"
	StepWritten  Step = "the value is written"
	StepVerified Step = "the value was read back"

	StepCompared        Step = "the host was compared with the journal"
	StepRestored        Step = "the original is written back"
	StepRestoreVerified Step = "the original was read back"
	StepForgotten       Step = "the entry is forgotten"
)

// Options change how an Applier works. The zero value is for production.
type Options struct {
	// Step is called at every Step, on the caller's goroutine, with the target
	// at hand. The crash test kills itself in it.
	Step func(Step, plan.Target)
	// Now is the clock for Entry.Since; time.Now when nil.
	Now func() time.Time
	// Units is for changes with a unit; without it they are ErrNoUnits.
	Units Units
	// Properties has Restore take Berth's values out of systemd's records, too. It waits
	// for systemd.
	Properties Properties
}

// Applier applies changes and restores originals. It is for one goroutine.
type Applier struct {
	host    Host
	journal *journal.Journal
	step    func(Step, plan.Target)
	now     func() time.Time
	units   Units
	// properties is nil where systemd's records are not to be looked at.
	properties Properties
	affinity   affinity
}

// New returns an Applier that journals into j.
func New(host Host, j *journal.Journal, opts Options) *Applier {
	a := &Applier{host: host, journal: j, step: opts.Step, now: opts.Now, units: opts.Units, properties: opts.Properties}
	a.affinity.before = map[plan.Target]map[int]cpuset.Set{}
	if a.step == nil {
		a.step = func(Step, plan.Target) {}
	}
	if a.now == nil {
		a.now = time.Now
	}
	return a
}

// Result is what became of one change.
type Result struct {
	// Change is the change as it was asked for.
	Change plan.Change
	// Effective is the value last read from the kernel, "" when none was.
	Effective cgroup.Value
	// Wrote says that the host file was written.
	Wrote bool
	// Err is nil when the value is in effect and recorded. It matches
	// ErrChanged, ErrDeferred, ErrGone, ErrJournal, ErrNotEffective, ErrRefused or
	// ErrSkipped, or is another answer of the kernel with path and content. With Wrote it may match
	// ErrJournal: the original is in effect, only its record is missing.
	Err error
}

// Applied reports whether the value is in effect, also when its record is
// missing (see Err).
func (r Result) Applied() bool {
	return r.Err == nil || r.Wrote && errors.Is(r.Err, ErrJournal)
}

// Apply makes the changes one by one in the order given, which is that of
// plan.Order, and returns one result for each.
func (a *Applier) Apply(changes []plan.Change) []Result {
	groups := a.open()
	defer groups.close()
	results := make([]Result, 0, len(changes))
	var failed []Result
	for _, c := range changes {
		result := a.unlessSkipped(groups, c, failed)
		if !result.Applied() {
			failed = append(failed, result)
		}
		results = append(results, result)
	}
	return results
}

func (a *Applier) unlessSkipped(groups *groups, c plan.Change, failed []Result) Result {
	for _, f := range failed {
		if plan.Needs(c, f.Change) {
			return Result{Change: c, Err: fmt.Errorf("%s: %w: needs %s, which failed: %w", c, ErrSkipped, f.Change, f.Err)}
		}
	}
	return a.apply(groups, c)
}

// apply makes one change.
func (a *Applier) apply(groups *groups, c plan.Change) Result {
	result := Result{Change: c}
	g, current, err := a.observe(groups, c)
	if err != nil {
		result.Err = fmt.Errorf("%s: %w", c, err)
		return result
	}
	result.Effective = current
	a.step(StepRead, c.Target)
	if !cgroup.Same(c.Knob, current, c.From) {
		result.Err = fmt.Errorf("%s: is %s: %w", c, current, ErrChanged)
		return result
	}
	if cgroup.Same(c.Knob, current, c.Value) {
		a.RestoreThreads(g, c.Target) // a crash may have come between
		return result
	}
	c.From = current
	unrecorded := a.record(g, c)
	if unrecorded != nil && !a.isWayBack(c) {
		result.Err = fmt.Errorf("%s: %w: %w", c, ErrJournal, unrecorded)
		return result
	}
	result.Effective, result.Wrote, err = a.write(g, c, StepWritten, StepVerified)
	switch {
	case err != nil:
		result.Err = fmt.Errorf("%s: %w", c, err)
	case unrecorded != nil:
		result.Err = fmt.Errorf("%s: written back, but %w: %w", c, ErrJournal, unrecorded)
	}
	return result
}

// observe reads the value in force, of the very group that the change was
// planned for: another one of the same name has a limit of its own, which the
// plan does not know. An entry for a group that is not there any more is of no
// use: it is forgotten here.
func (a *Applier) observe(groups *groups, c plan.Change) (*cgroup.Group, cgroup.Value, error) {
	g, err := groups.get(c.Group)
	var current cgroup.Value
	if err == nil {
		current, err = read(g, c.Knob, c.Unit)
	}
	if err != nil {
		return nil, "", a.classify(c.Target, err)
	}
	id, err := g.ID(c.Knob.Controller())
	if err != nil {
		return nil, "", a.classify(c.Target, err)
	}
	if entry, known := a.journal.Entry(c.Target); known && entry.ID != id {
		_ = a.journal.Forget(c.Target) // best effort: the identity tells again next time
	}
	if id != c.ID {
		return nil, "", fmt.Errorf("%w: the group is %s, the change is for %s", ErrGone, id, c.ID)
	}
	return g, current, nil
}

// classify marks the errors of a vanished group, and forgets its entry: its
// identity never comes back.
func (a *Applier) classify(t plan.Target, err error) error {
	if isGone(err) {
		_ = a.journal.Forget(t) // best effort: the identity tells again next time
		return fmt.Errorf("%w: %w", ErrGone, err)
	}
	return err
}

// record brings original and intent of a change into the journal.
func (a *Applier) record(g *cgroup.Group, c plan.Change) error {
	if _, known := a.journal.Entry(c.Target); !known {
		id, err := g.ID(c.Knob.Controller())
		if err != nil {
			return err
		}
		err = a.journal.Begin(journal.Entry{
			Target: c.Target, ID: id, Unit: c.Unit, Original: c.From,
			Owner: c.Owner, Workload: c.Workload, Why: c.Why, Since: a.now(),
		})
		if err != nil {
			return err
		}
		a.step(StepBegun, c.Target)
	}
	if err := a.journal.Intend(c); err != nil {
		return err
	}
	a.step(StepIntended, c.Target)
	return nil
}

// isWayBack reports whether a change puts the journaled original back.
func (a *Applier) isWayBack(c plan.Change) bool {
	entry, known := a.journal.Entry(c.Target)
	return known && entry.IsOriginal(c.Value)
}
