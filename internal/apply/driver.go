package apply

import (
	"fmt"
	"io"

	"github.com/berth-project/berth/internal/journal"
	"github.com/berth-project/berth/internal/plan"
)

// Driver reads and writes the targets of one or more kinds, for the length of one
// Apply, Adopt or Restore: what it has opened it keeps open, so that all reads and
// writes of a call mean the same thing. If it is an io.Closer, it is closed at the end.
//
// Errors match ErrGone when what the target names is not there any more,
// ErrNotEffective when the host took the value and does something else, ErrPartly when it
// took as much of it as it could, and ErrRefused when the host does not take it.
type Driver interface {
	// Read returns the value in force and the identity of what has it. The identity
	// may be known without the value, and comes with the error then.
	Read(plan.Target) (plan.Value, plan.Identity, error)
	// Write writes c.Value over c.From, which stands, and reads it back. It calls
	// Call.Written when the host was changed. The effective value is "" when it could
	// not be read.
	Write(c plan.Change) (effective plan.Value, err error)
}

// Attainer is a Driver of values that the host does not keep, or not take back, as
// they were written.
type Attainer interface {
	// Attainable returns what is to be written at this moment to put a recorded value
	// back, and what counts as that value when it stands. What is to be written need not count:
	// then the rest cannot be had yet (OutcomePartly).
	Attainable(t plan.Target, v plan.Value) (write, stands plan.Value)
}

// Originator is a Driver of values that may stand for another one, which is what goes back.
type Originator interface {
	// Original returns what is to be put back where found stands before the first write. The error
	// matches ErrDeferred while that is not known yet.
	Original(t plan.Target, found plan.Value) (plan.Value, error)
}

// Waiter is a Driver of values that the host does not take at times.
type Waiter interface {
	// Waits returns nil where the host takes v at this moment, else an error that matches
	// ErrNotInForce.
	Waits(t plan.Target, v plan.Value) error
}

// Locator is a Driver whose values are in files.
type Locator interface {
	// Locate returns the file that has the value v of a target, "" for none.
	Locate(t plan.Target, v plan.Value) string
}

// Encoder is a Driver whose files take other texts than its values.
type Encoder interface {
	// Encode returns the text that the file of the target takes at this moment for v, and
	// false where it takes none.
	Encode(t plan.Target, v plan.Value) (text string, takes bool)
}

// SideEffects is a Driver of values whose change may cost others something. Its Write gives
// that back, too.
type SideEffects interface {
	// Note journals what a change of the target may cost. The error is ErrJournal, and
	// then the change must not be made.
	Note(t plan.Target) error
	// GiveBack gives back what was noted of the target.
	GiveBack(t plan.Target)
}

// Recorder is a Driver of values that another program may have on record, too, and writes
// again at moments of its own.
type Recorder interface {
	// Recorded returns the value on record, and false where there is none. What the
	// record does not say is as in like. The error matches ErrDeferred while the other
	// program must not be asked.
	Recorded(t plan.Target, like plan.Value) (v plan.Value, recorded bool, err error)
	// SetRecorded replaces the value on record. The other program may write the target at
	// once; it says whether a value of its own stands there now, which may not be v.
	SetRecorded(t plan.Target, v plan.Value) (stands bool, err error)
}

// Survivor is a Driver of targets parts of which may outlive them with what they were given, as
// threads do that left their group.
type Survivor interface {
	// Survives returns the value that parts of a target still have, and false where none has. The target
	// itself is gone, or another one has its name. A Write of the original gives the parts what they had.
	Survives(t plan.Target) (v plan.Value, survives bool, err error)
}

// Limiter is an Opener that may find out that side effects of its writes last on this
// host.
type Limiter interface {
	// Limits says which and why, "" while nothing speaks for that.
	Limits() string
}

// Call is what a driver may ask of the Applier during one call.
type Call struct {
	// Written is called when the host was changed, before anything is read back.
	Written func(plan.Target)
	// Author says who wrote a value that stands, in words that follow "which".
	Author func(plan.Target, plan.Value) string
	// Threads returns those that are journaled with a target, and false where the journal
	// does not have the target.
	Threads func(plan.Target) ([]journal.Thread, bool)
	// IsOf says whether a target is journaled, with this identity.
	IsOf func(plan.Target, plan.Identity) bool
	// KeepThreads replaces them. The error is ErrJournal.
	KeepThreads func(plan.Target, []journal.Thread) error
}

// Opener makes drivers. It is comparable: of kinds with the same opener the targets
// share one driver in every call.
type Opener interface {
	Open(call Call) Driver
}

// Kind is one kind of target: what its values mean, and how to reach them.
type Kind struct {
	plan.Kind
	Opener Opener
}

// Kinds has every kind of target by its driver's name.
type Kinds map[plan.Driver]Kind

// Values returns what the kinds say of their values without looking at the host.
func (k Kinds) Values() plan.Kinds {
	values := make(plan.Kinds, len(k))
	for name, kind := range k {
		values[name] = kind.Kind
	}
	return values
}

// call keeps the drivers of one call.
type call struct {
	kinds  Kinds
	values plan.Kinds
	told   Call
	open   map[Opener]Driver
}

func newCall(kinds Kinds, values plan.Kinds, told Call) *call {
	return &call{kinds: kinds, values: values, told: told, open: make(map[Opener]Driver)}
}

// driver returns the driver of a target, opened at its first use.
func (c *call) driver(t plan.Target) (Driver, error) {
	opener := c.kinds[t.Driver].Opener
	if opener == nil {
		return nil, fmt.Errorf("driver %q: %w", t.Driver, ErrNoDriver)
	}
	d := c.open[opener]
	if d == nil {
		d = opener.Open(c.told)
		c.open[opener] = d
	}
	return d, nil
}

func (c *call) read(t plan.Target) (plan.Value, plan.Identity, error) {
	d, err := c.driver(t)
	if err != nil {
		return "", "", err
	}
	return d.Read(t)
}

// offers returns the driver of a target as what it may offer beside reading and writing. What
// is wrong with a driver that cannot be opened is said by the reads and writes.
func offers[T any](c *call, t plan.Target) (T, bool) {
	d, _ := c.driver(t)
	offered, ok := d.(T)
	return offered, ok
}

// attainable is Attainer.Attainable, also for drivers that keep every value.
func (c *call) attainable(t plan.Target, v plan.Value) (write, stands plan.Value) {
	if a, ok := offers[Attainer](c, t); ok && v != "" {
		return a.Attainable(t, v)
	}
	return v, v
}

// original is Originator.Original, also for drivers whose values stand for themselves.
func (c *call) original(t plan.Target, found plan.Value) (plan.Value, error) {
	if o, ok := offers[Originator](c, t); ok {
		return o.Original(t, found)
	}
	return found, nil
}

// waits is Waiter.Waits, also for drivers of values that are always taken.
func (c *call) waits(t plan.Target, v plan.Value) error {
	if w, ok := offers[Waiter](c, t); ok {
		return w.Waits(t, v)
	}
	return nil
}

func (c *call) note(t plan.Target) error {
	if s, ok := offers[SideEffects](c, t); ok {
		return s.Note(t)
	}
	return nil
}

func (c *call) giveBack(t plan.Target) {
	if s, ok := offers[SideEffects](c, t); ok {
		s.GiveBack(t)
	}
}

// survives is Survivor.Survives, also for drivers of values that end with their target.
func (c *call) survives(t plan.Target) (plan.Value, bool, error) {
	if s, ok := offers[Survivor](c, t); ok {
		return s.Survives(t)
	}
	return "", false, nil
}

func (c *call) locate(t plan.Target, v plan.Value) string {
	if l, ok := offers[Locator](c, t); ok {
		return l.Locate(t, v)
	}
	return ""
}

// encode is Encoder.Encode for both values of an entry, nil where a driver has no other texts or
// the file does not take both.
func (c *call) encode(t plan.Target, found, original plan.Value) *Texts {
	e, ok := offers[Encoder](c, t)
	if !ok {
		return nil
	}
	var texts Texts
	if texts.Found, ok = e.Encode(t, found); !ok {
		return nil
	}
	if texts.Original, ok = e.Encode(t, original); !ok {
		return nil
	}
	return &texts
}

func (c *call) close() {
	for _, d := range c.open {
		if closer, ok := d.(io.Closer); ok {
			_ = closer.Close() // every write was read back
		}
	}
}
