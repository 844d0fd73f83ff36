package systemd

import (
	"fmt"
	"slices"
	"sync"

	"github.com/berth-project/berth/internal/engine/apply"
	"github.com/berth-project/berth/internal/engine/driver/cgroupfile"
	"github.com/berth-project/berth/internal/linux/cgroup"
)

// Ask is one request to systemd: to set one list, or the precedence, of a unit. With a Group it is a question: which
// list systemd has on record for that group.
type Ask struct {
	Unit  string
	Knob  cgroup.Knob
	Value cgroup.Value
	Group string
}

// answer is systemd's reply: that it set a value, or which value it has on record.
type answer struct {
	value    cgroup.Value
	recorded bool
	err      error
}

// Later implements cgroupfile.Units for a loop that must not wait for systemd during a pass. It remembers each request
// and refuses it with apply.ErrDeferred. The loop fetches the requests, asks with Do, and makes the next pass, which
// sees the answer as if systemd had just given it. Later is safe for concurrent use.
type Later struct {
	units cgroupfile.Units
	// properties is nil if units does not implement it.
	properties cgroupfile.Properties

	mu     sync.Mutex
	atOnce bool
	asks   []Ask
	// answers are the answers since the last Take.
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

// SetList implements cgroupfile.Units.
func (l *Later) SetList(unit string, k cgroup.Knob, v cgroup.Value) error {
	return l.ask(Ask{Unit: unit, Knob: k, Value: v}).err
}

// SetWeight implements cgroupfile.Weights.
func (l *Later) SetWeight(unit string, v cgroup.Value) error {
	return l.ask(Ask{Unit: unit, Knob: cgroup.KnobPrecedence, Value: v}).err
}

// Origin implements cgroupfile.Origins.
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
		if a.Group == "" { // a pass may ask the same question more than once
			delete(l.answers, a)
		}
		return got
	}
	if l.atOnce {
		return l.put(a)
	}
	if !slices.Contains(l.asks, a) { // two checks may precede the request
		l.asks = append(l.asks, a)
	}
	return answer{err: fmt.Errorf("%w until systemd is asked: unit %s", apply.ErrDeferred, a.Unit)}
}

// put asks systemd, and waits for the answer.
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

// MayRecord implements cgroupfile.Properties.
func (l *Later) MayRecord(group string, k cgroup.Knob) bool {
	return l.properties != nil && l.properties.MayRecord(group, k)
}

// Property implements cgroupfile.Properties. While passes must not wait, Property asks nothing and returns
// apply.ErrDeferred: a running agent notices what systemd writes.
func (l *Later) Property(group string, k cgroup.Knob) (v cgroup.Value, recorded bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.atOnce {
		return "", false, fmt.Errorf("%w until systemd is asked: group %s", apply.ErrDeferred, group)
	}
	return l.properties.Property(group, k)
}

// SetProperty implements cgroupfile.Properties.
func (l *Later) SetProperty(group string, k cgroup.Knob, v cgroup.Value) error {
	return l.properties.SetProperty(group, k, v)
}

// Take returns the requests since the last Take, in order. It drops answers that no pass needed in the meantime.
func (l *Later) Take() []Ask {
	l.mu.Lock()
	defer l.mu.Unlock()
	asks := l.asks
	l.asks = nil
	clear(l.answers)
	return asks
}

// Rest reports whether no request is pending. If so, it drops answers that no pass needed.
func (l *Later) Rest() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.asks) > 0 {
		return false
	}
	clear(l.answers)
	return true
}

// Do asks systemd, and remembers the answer until the next Take.
func (l *Later) Do(a Ask) {
	got := l.put(a)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answers[a] = got
}
