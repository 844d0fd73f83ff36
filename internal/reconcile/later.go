package reconcile

import (
	"fmt"
	"slices"
	"sync"

	"github.com/berth-project/berth/internal/apply"
	"github.com/berth-project/berth/internal/cgroup"
	"github.com/berth-project/berth/internal/driver/cgroupfile"
	"github.com/berth-project/berth/internal/plan"
)

// Ask is one list, or the precedence, of a unit that systemd is to be asked for. With a group it is a
// question: what is on record for the list of that group.
type Ask struct {
	Unit  string
	Knob  cgroup.Knob
	Value cgroup.Value
	Group string
}

// answer is what systemd said: that it set a value, or which one it has on record.
type answer struct {
	value    cgroup.Value
	recorded bool
	err      error
}

// Later is cgroupfile.Units for a loop that must not wait for systemd during a pass: it
// notes what is asked for and refuses it with apply.ErrDeferred; the loop takes the
// notes, asks with Do, and makes the next pass. In that one the answer counts as if
// systemd had just given it. It is safe for concurrent use.
type Later struct {
	units cgroupfile.Units
	// properties is nil where units has none.
	properties cgroupfile.Properties

	mu     sync.Mutex
	atOnce bool
	asks   []Ask
	// answers are those since the last Take.
	answers map[Ask]answer
}

// NewLater returns a Later that asks units.
func NewLater(units cgroupfile.Units) *Later {
	properties, _ := units.(cgroupfile.Properties)
	return &Later{units: units, properties: properties, answers: map[Ask]answer{}}
}

// AtOnce ends the deferring: from now on SetList waits for systemd.
func (l *Later) AtOnce() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.atOnce, l.asks = true, nil
}

// SetList is cgroupfile.Units.
func (l *Later) SetList(unit string, k cgroup.Knob, v cgroup.Value) error {
	return l.ask(Ask{Unit: unit, Knob: k, Value: v}).err
}

// SetWeight is cgroupfile.Weights.
func (l *Later) SetWeight(unit string, v cgroup.Value) error {
	return l.ask(Ask{Unit: unit, Knob: cgroup.KnobPrecedence, Value: v}).err
}

// Origin is cgroupfile.Origins.
func (l *Later) Origin(group string, k cgroup.Knob) (v cgroup.Value, recorded bool, err error) {
	if !l.MayRecord(group, k) {
		return "", false, nil
	}
	got := l.ask(Ask{Unit: UnitOf(group), Knob: k, Group: group})
	return got.value, got.recorded, got.err
}

func (l *Later) ask(a Ask) answer {
	l.mu.Lock()
	defer l.mu.Unlock()
	if got, answered := l.answers[a]; answered {
		if a.Group == "" { // an answer to a question may be asked for more than once in a pass
			delete(l.answers, a)
		}
		return got
	}
	if l.atOnce {
		return l.put(a)
	}
	if !slices.Contains(l.asks, a) { // two looks may come before it is asked
		l.asks = append(l.asks, a)
	}
	return answer{err: fmt.Errorf("%w until systemd is asked: unit %s", apply.ErrDeferred, a.Unit)}
}

// put asks systemd, and waits.
func (l *Later) put(a Ask) (got answer) {
	if a.Group != "" {
		got.value, got.recorded, got.err = l.properties.Property(a.Group, a.Knob)
		return got
	}
	if a.Knob != cgroup.KnobPrecedence {
		return answer{err: l.units.SetList(a.Unit, a.Knob, a.Value)}
	}
	weights, ok := l.units.(cgroupfile.Weights)
	if !ok {
		return answer{err: fmt.Errorf("unit %s: %w", a.Unit, cgroupfile.ErrNoUnits)}
	}
	return answer{err: weights.SetWeight(a.Unit, a.Value)}
}

// MayRecord is cgroupfile.Properties.
func (l *Later) MayRecord(group string, k cgroup.Knob) bool {
	return l.properties != nil && l.properties.MayRecord(group, k)
}

// Property is cgroupfile.Properties. While a pass must not wait nothing is asked, and the error
// is apply.ErrDeferred: an agent that runs notices what systemd writes.
func (l *Later) Property(group string, k cgroup.Knob) (v cgroup.Value, recorded bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.atOnce {
		return "", false, fmt.Errorf("%w until systemd is asked: group %s", apply.ErrDeferred, group)
	}
	return l.properties.Property(group, k)
}

// SetProperty is cgroupfile.Properties.
func (l *Later) SetProperty(group string, k cgroup.Knob, v cgroup.Value) error {
	return l.properties.SetProperty(group, k, v)
}

// Take returns what was asked for since the last Take, in order. Answers that no pass
// needed meanwhile are forgotten.
func (l *Later) Take() []Ask {
	l.mu.Lock()
	defer l.mu.Unlock()
	asks := l.asks
	l.asks = nil
	clear(l.answers)
	return asks
}

// Rest says that there is nothing to ask for. Answers that no pass needed are forgotten then.
func (l *Later) Rest() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.asks) > 0 {
		return false
	}
	clear(l.answers)
	return true
}

// Do asks systemd, and keeps the answer until the next Take.
func (l *Later) Do(a Ask) {
	got := l.put(a)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answers[a] = got
}

// StillAsks says that the last look at the unit asked for this, and that nothing else is
// desired of it since. More than one group may be taken for the unit's: another slice may
// have a group of its name. A question changes nothing.
func (r *Reconciler) StillAsks(a Ask) bool {
	if a.Group != "" {
		return true
	}
	for path, o := range r.objects {
		kn := o.knobs[a.Knob]
		if r.way.unitFor(path, a.Knob) == a.Unit && !o.dirty && kn != nil && kn.deferred == a.Value {
			return true
		}
	}
	return r.unrestored.awaits(a.Unit, a.Knob, func(t plan.Target) bool { return !r.isDesired(t) })
}
