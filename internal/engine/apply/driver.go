package apply

import (
	"fmt"
	"io"

	"github.com/berth-project/berth/internal/engine/journal"
	"github.com/berth-project/berth/internal/engine/plan"
)

// Driver reads and writes the targets of one or more kinds, for the duration of one Apply, Adopt or Restore. What it
// has opened stays open until the end, so that all reads and writes of a call refer to the same object. If the Driver
// is an io.Closer, it is closed at the end.
//
// Errors match ErrGone when the object that the target names no longer exists, and ErrRefused when the host does not
// accept the value. They match ErrNotEffective when the host accepted the value and does something else, and ErrPartly
// when it applied as much of the value as it could.
type Driver interface {
	// Read returns the value in effect and the identity of the object that has it. With an error, the identity may be
	// known without the value.
	Read(plan.Target) (plan.Value, plan.Identity, error)
	// Write writes c.Value over c.From, the value in effect, and reads it back. It calls Call.Written when the host was
	// changed. The effective value is "" when it could not be read.
	Write(c plan.Change) (effective plan.Value, err error)
}

// Attainer is a Driver of values that the host does not retain, or does not accept again, as they were written.
type Attainer interface {
	// Attainable returns the value to write now to restore a recorded value (write), and the value that is equivalent
	// to the recorded one when it is in effect (stands). If write equals neither v nor stands, the remainder of v is
	// not possible yet (OutcomePartly).
	Attainable(t plan.Target, v plan.Value) (write, stands plan.Value)
}

// Originator is a Driver of targets where the value in effect may represent another value. That other value has to be
// restored.
type Originator interface {
	// Original returns the value to restore if found is in effect before the first write. The error matches ErrDeferred
	// while the value to restore is unknown.
	Original(t plan.Target, found plan.Value) (plan.Value, error)
}

// Waiter is a Driver of values that the host does not accept at all times.
type Waiter interface {
	// Waits returns nil if the host accepts v now, else an error that matches ErrNotInForce.
	Waits(t plan.Target, v plan.Value) error
}

// Forecaster is a Driver of objects that other programs may use: it restores all of an original only once they do not.
type Forecaster interface {
	// Forecast returns the error that a Write of the original would return because of such a use, and nil for none. It
	// writes nothing.
	Forecast(t plan.Target, original plan.Value) error
}

// Locator is a Driver whose values are in files.
type Locator interface {
	// Locate returns the file that has the value v of a target, "" for no file.
	Locate(t plan.Target, v plan.Value) string
}

// Encoder is a Driver whose files accept texts that differ from its values.
type Encoder interface {
	// Encode returns the text that the file of the target accepts for v now, and false if it accepts no text.
	Encode(t plan.Target, v plan.Value) (text string, takes bool)
}

// SideEffects is a Driver of values whose change may have costs on the host, such as threads that lose their affinity.
// Its Write also gives back what the change cost.
type SideEffects interface {
	// Note journals what a change of the target may cost. The error is ErrJournal; the change must then not be made.
	Note(t plan.Target) error
	// GiveBack gives back what was noted for the target.
	GiveBack(t plan.Target)
}

// Recorder is a Driver of values that another program may also have on record, and writes again at times of its own
// choice.
type Recorder interface {
	// Recorded returns the value on record, and false if there is none. A part of the value that the record lacks comes
	// from like. The error matches ErrDeferred while the other program must not be asked.
	Recorded(t plan.Target, like plan.Value) (v plan.Value, recorded bool, err error)
	// SetRecorded replaces the value on record. The other program may write the target at once; stands reports whether
	// a value of that program, which may not be v, is now in effect there.
	SetRecorded(t plan.Target, v plan.Value) (stands bool, err error)
}

// Beginner is a Recorder of objects that may be unable to begin with a value.
type Beginner interface {
	// MayBegin returns nil if an object can begin with v, else ErrRefused with the reason.
	MayBegin(t plan.Target, v plan.Value) error
}

// Survivor is a Driver of targets with parts that may outlive them with the values that they were given, as threads do
// that left their group.
type Survivor interface {
	// Survives returns the value that parts of a target still have, and false if no part has one. The target itself is
	// gone, or another object has its name. A Write of the original restores the parts.
	Survives(t plan.Target) (v plan.Value, survives bool, err error)
}

// Follower is a Driver of targets with parts that come and go, as threads do.
type Follower interface {
	// Follow gives the written value of a target to the parts that are on no record and lack it, and returns their
	// number. A part to which another program gave a value stays as it is. The error matches ErrGone if the target has
	// another identity.
	Follow(t plan.Target, id plan.Identity) (given int, err error)
	// Lacks reports whether a target has a part to which Follow would give the value. It writes nothing.
	Lacks(t plan.Target) (lacks bool, err error)
}

// Limiter is an Opener that may find out that side effects of its writes are permanent on this host.
type Limiter interface {
	// Limits returns which side effects are permanent and why, "" while there is no sign of any.
	Limits() string
}

// Call has the functions of the Applier that a driver may use during one call.
type Call struct {
	// Written is called when the host was changed, before the driver reads anything back.
	Written func(plan.Target)
	// Author returns who wrote the value in effect, in words that follow "which".
	Author func(plan.Target, plan.Value) string
	// Threads returns the threads that are journaled with a target, and false if the target has no journal entry.
	Threads func(plan.Target) ([]journal.Thread, bool)
	// IsOf reports whether a target is journaled with this identity.
	IsOf func(plan.Target, plan.Identity) bool
	// KeepThreads replaces the journaled threads of a target. The error is ErrJournal.
	KeepThreads func(plan.Target, []journal.Thread) error
}

// Opener creates drivers. It is comparable: all kinds with the same Opener share one driver in every call.
type Opener interface {
	Open(call Call) Driver
}

// Kind is one kind of target: the meaning of its values, and the Opener of its driver.
type Kind struct {
	plan.Kind
	Opener Opener
}

// Kinds maps each driver's name to its kind of target.
type Kinds map[plan.Driver]Kind

// Values returns the value semantics of the kinds, which do not depend on the host.
func (k Kinds) Values() plan.Kinds {
	values := make(plan.Kinds, len(k))
	for name, kind := range k {
		values[name] = kind.Kind
	}
	return values
}

// Of returns kinds of target that share the driver that open returns for each call.
func Of(values plan.Kinds, open func(Call) Driver) Kinds { return Shared(values, &opening{open}) }

// Shared returns kinds of target with the same Opener.
func Shared(values plan.Kinds, opener Opener) Kinds {
	kinds := make(Kinds, len(values))
	for name, kind := range values {
		kinds[name] = Kind{Kind: kind, Opener: opener}
	}
	return kinds
}

// opening makes a function an Opener.
type opening struct{ open func(Call) Driver }

// Open implements Opener.
func (o *opening) Open(call Call) Driver { return o.open(call) }

// call has the open drivers of one call.
type call struct {
	kinds  Kinds
	values plan.Kinds
	told   Call
	open   map[Opener]Driver
}

func newCall(kinds Kinds, values plan.Kinds, told Call) *call {
	return &call{kinds: kinds, values: values, told: told, open: make(map[Opener]Driver)}
}

// driver returns the driver of a target and opens it at its first use.
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

// offers returns the driver of a target as an optional interface T, and false if the driver does not implement T. It
// drops the error of a driver that cannot be opened, since reads and writes report that error.
func offers[T any](c *call, t plan.Target) (T, bool) {
	d, _ := c.driver(t)
	offered, ok := d.(T)
	return offered, ok
}

// attainable is Attainer.Attainable; without it, the host retains every value as written.
func (c *call) attainable(t plan.Target, v plan.Value) (write, stands plan.Value) {
	if a, ok := offers[Attainer](c, t); ok && v != "" {
		return a.Attainable(t, v)
	}
	return v, v
}

// original is Originator.Original; without it, the original is the value found.
func (c *call) original(t plan.Target, found plan.Value) (plan.Value, error) {
	if o, ok := offers[Originator](c, t); ok {
		return o.Original(t, found)
	}
	return found, nil
}

// waits is Waiter.Waits; without it, the host accepts values at any time.
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

// mayBegin is Beginner.MayBegin; without it, objects can begin with any value.
func (c *call) mayBegin(t plan.Target, v plan.Value) error {
	if b, ok := offers[Beginner](c, t); ok {
		return b.MayBegin(t, v)
	}
	return nil
}

// survives is Survivor.Survives; without it, no value outlives its target.
func (c *call) survives(t plan.Target) (plan.Value, bool, error) {
	if s, ok := offers[Survivor](c, t); ok {
		return s.Survives(t)
	}
	return "", false, nil
}

// forecast changes the outcome of an original that could not be restored now.
func (c *call) forecast(r Restored) Restored {
	f, ok := offers[Forecaster](c, r.Entry.Target)
	if !ok || r.Outcome != OutcomeRestored {
		return r
	}
	if err := f.Forecast(r.Entry.Target, r.Entry.Original); err != nil {
		return r.failed(err)
	}
	return r
}

func (c *call) locate(t plan.Target, v plan.Value) string {
	if l, ok := offers[Locator](c, t); ok {
		return l.Locate(t, v)
	}
	return ""
}

// encode is Encoder.Encode for both values. It returns nil if the driver is no Encoder or the file does not accept both
// values.
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
