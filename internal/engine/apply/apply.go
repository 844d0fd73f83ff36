package apply

import (
	"errors"
	"fmt"
	"time"

	"github.com/berth-project/berth/internal/engine/journal"
	"github.com/berth-project/berth/internal/engine/plan"
)

// Step names a moment between two steps of a change or of its restoration.
type Step string

// The steps, in the order in which they are reached. A change passes the steps from StepRead to StepVerified, without
// StepBegun if its target has an entry already. A restoration passes the remaining steps.
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
	// Step is called at every Step, on the caller's goroutine, with the current target. The crash test kills itself in
	// it.
	Step func(Step, plan.Target)
	// Now is the clock for Entry.Since; time.Now when nil.
	Now func() time.Time
	// Held returns an error that names another part of Berth with a journal entry for the target, and nil for none. It
	// is called after a target's new entry is on disk. Two parts that checked before they recorded could both record at
	// the same moment. Because both check afterwards, at least one of them sees the other's entry.
	Held func(plan.Target) error
	// Records makes Restore also remove Berth's values from the records of other programs (Recorder). Restore waits for
	// these programs.
	Records bool
	// Leave makes Restore forget the originals of values that other writers changed, and of values that the host
	// restores only in part. The values in effect stay.
	Leave bool
}

// Applier applies changes and restores originals. It is not safe for concurrent use.
type Applier struct {
	kinds   Kinds
	values  plan.Kinds
	journal *journal.Journal
	step    func(Step, plan.Target)
	now     func() time.Time
	held    func(plan.Target) error
	records bool
	leave   bool

	written Step // the step that the current write reaches
	wrote   bool // the current write has reached it
}

// New returns an Applier for targets of these kinds that journals into j.
func New(kinds Kinds, j *journal.Journal, opts Options) *Applier {
	a := &Applier{
		kinds: kinds, values: kinds.Values(), journal: j,
		step: opts.Step, now: opts.Now, held: opts.Held, records: opts.Records, leave: opts.Leave,
	}
	if a.step == nil {
		a.step = func(Step, plan.Target) {}
	}
	if a.now == nil {
		a.now = time.Now
	}
	return a
}

// Kinds returns the value semantics of the Applier's kinds of target, which plan.Diff and plan.Order need.
func (a *Applier) Kinds() plan.Kinds { return a.values }

// Result is the outcome of one change.
type Result struct {
	// Change is the requested change.
	Change plan.Change
	// Effective is the value last read from the kernel, "" when no value was read.
	Effective plan.Value
	// Wrote reports whether the host was written.
	Wrote bool
	// Err is nil when the value is in effect and recorded. It matches ErrChanged, ErrDeferred, ErrGone, ErrJournal,
	// ErrNotEffective, ErrPartly, ErrRefused or ErrSkipped. Otherwise it is the error of Options.Held, or another
	// answer of the kernel with path and content. With Wrote it may match ErrJournal: the original is in effect, only
	// its record is missing.
	Err error
}

// Applied reports whether the value is in effect, even when its record is missing (see Err).
func (r Result) Applied() bool {
	return r.Err == nil || r.Wrote && errors.Is(r.Err, ErrJournal)
}

// Apply makes the changes one by one in the given order, which is that of plan.Order, and returns one result for each
// change.
func (a *Applier) Apply(changes []plan.Change) []Result {
	call := a.open()
	defer call.close()
	results := make([]Result, 0, len(changes))
	var failed []Result
	for _, c := range changes {
		r := Result{Change: c, Err: a.unmet(c, failed)}
		if r.Err == nil {
			r.Effective, r.Wrote, r.Err = a.apply(call, c)
		}
		if r.Err != nil {
			r.Err = fmt.Errorf("%s: %w", c, r.Err)
		}
		if !r.Applied() {
			failed = append(failed, r)
		}
		results = append(results, r)
	}
	return results
}

// open begins a call. Through it a driver tells the Applier what it wrote, and asks the Applier who wrote a value.
func (a *Applier) open() *call {
	return newCall(a.kinds, a.values, Call{
		Author: a.author, Threads: a.threads, IsOf: a.isOf, KeepThreads: a.keepThreads,
		Written: func(t plan.Target) {
			a.wrote = true
			a.step(a.written, t)
		},
	})
}

// unmet returns why a change is not tried: a change that it needs was not made. A drifted target is in failed without
// an error.
func (a *Applier) unmet(c plan.Change, failed []Result) error {
	for _, f := range failed {
		switch {
		case !plan.Needs(a.values, c, f.Change):
		case f.Err == nil:
			return fmt.Errorf("%w: needs %s", ErrSkipped, f.Change)
		default:
			return fmt.Errorf("%w: needs %s, which failed: %w", ErrSkipped, f.Change, f.Err)
		}
	}
	return nil
}

// apply makes one change. It returns the value last read and whether the host was written.
func (a *Applier) apply(call *call, c plan.Change) (plan.Value, bool, error) {
	current, err := a.observe(call, c)
	if err != nil {
		return "", false, err
	}
	a.step(StepRead, c.Target)
	switch {
	case !a.values.Same(c.Target, current, c.From):
		return current, false, fmt.Errorf("is %s: %w", current, ErrChanged)
	case a.values.Same(c.Target, current, c.Value):
		call.giveBack(c.Target) // a crash may have come between the write and this step
		return current, false, nil
	}
	c.From = current
	original := current
	_, known := a.journal.Entry(c.Target)
	if !known {
		if original, err = call.original(c.Target, current); err != nil {
			return current, false, err
		}
	}
	unrecorded := a.record(c, original)
	if !known && unrecorded == nil {
		if err := a.alone(c.Target); err != nil {
			return current, false, err
		}
	}
	if unrecorded != nil && !a.isWayBack(c) {
		return current, false, fmt.Errorf("%w: %w", ErrJournal, unrecorded)
	}
	effective, wrote, err := a.write(call, c, StepWritten, StepVerified)
	if err == nil && unrecorded != nil {
		err = fmt.Errorf("written back, but %w: %w", ErrJournal, unrecorded)
	}
	return effective, wrote, err
}

// observe reads the value in effect of the object that the change was planned for. Another object of the same name has
// a value that the plan does not know. observe also forgets an entry whose object is gone.
func (a *Applier) observe(call *call, c plan.Change) (plan.Value, error) {
	current, id, err := call.read(c.Target)
	if err != nil {
		return "", a.classify(call, c.Target, err)
	}
	if entry, known := a.journal.Entry(c.Target); known && !entry.IsOf(a.values, id, current) {
		if err := a.release(call, entry); err != nil {
			return "", err
		}
		_ = a.journal.Forget(c.Target) // best effort: the next read finds the other identity again
	}
	if id != c.ID {
		return "", fmt.Errorf("%w: it is %s, the change is for %s", ErrGone, id, c.ID)
	}
	return current, nil
}

// write makes the driver write c.Value over c.From. It returns the value in effect and whether the host was changed.
func (a *Applier) write(call *call, c plan.Change, written, verified Step) (plan.Value, bool, error) {
	d, err := call.driver(c.Target)
	if err != nil {
		return c.From, false, err
	}
	if err := call.note(c.Target); err != nil && written == StepWritten && !a.isWayBack(c) {
		return c.From, false, err
	}
	a.written, a.wrote = written, false
	effective, err := d.Write(c)
	if effective != "" && a.wrote {
		a.step(verified, c.Target)
	}
	if !a.wrote {
		effective = c.From
	} else if effective != "" && a.mayStop(c) {
		_ = a.journal.Made(c.Target, effective) // best effort: without it, all values on the way are treated as Berth's
	}
	return effective, a.wrote, a.classify(call, c.Target, err)
}

// mayStop reports whether the host may leave a change partly made.
func (a *Applier) mayStop(c plan.Change) bool {
	return a.values.Part(c.Target, c.From, c.From, c.Value)
}

// classify forgets the entry of a target that vanished, since its identity never comes back. The entry stays if another
// program may give the value to a new object (plan.Kind.Recurs), or if parts of the target survive.
func (a *Applier) classify(call *call, t plan.Target, err error) error {
	if !errors.Is(err, ErrGone) || a.values.Recurs(t) {
		return err
	}
	if _, survives, unknown := call.survives(t); !survives && unknown == nil {
		_ = a.journal.Forget(t) // best effort: the next read finds the target gone again
	}
	return err
}

// release restores the surviving parts of a target before its entry is forgotten, because another object has its name.
func (a *Applier) release(call *call, e journal.Entry) error {
	r := call.survivors(Restored{Entry: e, Outcome: OutcomeGone})
	if r.Outcome == OutcomeRestored {
		if _, _, err := a.write(call, wayBack(e, r.Found), StepRestored, StepRestoreVerified); err != nil {
			r = r.failed(err)
		}
	}
	return r.Err
}

// record journals the original and the intent of a change.
func (a *Applier) record(c plan.Change, original plan.Value) error {
	if _, known := a.journal.Entry(c.Target); !known {
		err := a.journal.Begin(journal.Entry{
			Target: c.Target, ID: c.ID, Original: original,
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

// author returns who wrote the value in effect, in words that follow "which".
func (a *Applier) author(t plan.Target, v plan.Value) string {
	e, known := a.journal.Entry(t)
	switch {
	case known && e.IsOriginal(a.values, v):
		return "stood there before Berth"
	case known && e.IsOurs(a.values, v):
		return fmt.Sprintf("Berth wrote for workload %q", e.Workload)
	}
	return "Berth did not write"
}

// isWayBack reports whether a change restores the journaled original.
func (a *Applier) isWayBack(c plan.Change) bool {
	entry, known := a.journal.Entry(c.Target)
	return known && entry.IsOriginal(a.values, c.Value)
}
