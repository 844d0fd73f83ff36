package thread

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/kernel"
)

// Driver is the kind of the targets of this package.
const Driver plan.Driver = "thread"

// The values of a target: how many threads of the group have what its knob names. If another writer changed threads
// since, the value says instead what these threads have and had.
const (
	None plan.Value = "none"
	Some plan.Value = "some"
	All  plan.Value = "all"
)

// The prefixes of a knob; the desired policy or slice follows.
const (
	policy = "policy "
	slice  = "slice "
)

// PolicyTarget returns the target of a scheduling policy, such as fifo:40, of the threads of the group at a path.
func PolicyTarget(group, p string) plan.Target {
	return plan.Target{Driver: Driver, Object: group, Knob: policy + p}
}

// SliceTarget returns the target of a slice, such as 3ms, of the threads of the group at a path.
func SliceTarget(group, d string) plan.Target {
	return plan.Target{Driver: Driver, Object: group, Knob: slice + d}
}

// Values returns what the kind says about its values without a host.
func Values() plan.Kinds { return plan.Kinds{Driver: {Mangled: partly}} }

// partly reports whether only some threads have what Berth wrote: threads were changed after the write, or a crash
// ended the write.
func partly(_ plan.Target, v, recorded plan.Value) bool { return v == Some && recorded == All }

// aim is what a knob names: a policy, or a slice.
type aim struct {
	policy *had
	slice  time.Duration
}

// had is what a thread had: a policy, and a slice of its own (0 for none).
type had struct {
	class    kernel.Class
	priority int
	slice    time.Duration
}

// String returns the text that parse reads: fifo:40, or batch 3ms.
func (h had) String() string {
	text := h.class.String()
	if h.class.IsRealTime() {
		text += ":" + strconv.Itoa(h.priority)
	}
	if h.slice > 0 {
		text += " " + h.slice.String()
	}
	return text
}

func parse(text string) (h had, err error) {
	text, own, sliced := strings.Cut(text, " ")
	word, digits, prioritized := strings.Cut(text, ":")
	class, known := kernel.ClassNamed(word)
	h.class = class
	if prioritized {
		h.priority, err = strconv.Atoi(digits)
	}
	if err == nil && sliced {
		h.slice, err = time.ParseDuration(own)
	}
	if err != nil || !known || prioritized != class.IsRealTime() {
		return had{}, fmt.Errorf("%q is no policy with a slice: %w", text, errMalformed)
	}
	return h, nil
}

func aimOf(t plan.Target) (aim, error) {
	if text, is := strings.CutPrefix(t.Knob, policy); is {
		h, err := parse(text)
		return aim{policy: &h}, err
	}
	d, err := time.ParseDuration(strings.TrimPrefix(t.Knob, slice))
	if err != nil || d <= 0 {
		return aim{}, fmt.Errorf("%q is no slice: %w", t.Knob, errMalformed)
	}
	return aim{slice: d}, nil
}

// concerns reports whether the knob applies to a thread at all.
func (a aim) concerns(s kernel.Scheduled) bool {
	if a.policy != nil {
		_, known := kernel.ClassNamed(s.Class.String())
		return known
	}
	return s.Class.HasSlice()
}

// isMet reports whether a thread has what the knob names.
func (a aim) isMet(s kernel.Scheduled) bool {
	if a.policy != nil {
		return s.Class == a.policy.class && s.Priority == a.policy.priority
	}
	return s.Slice == a.slice
}

// isUnset reports whether a thread has the default of what the knob names: nobody gave it a policy or slice. base is the
// default slice.
func (a aim) isUnset(s kernel.Scheduled, base time.Duration) bool {
	if a.policy != nil {
		return s.Class == kernel.Other
	}
	return s.Slice == base
}

// wasMet reports whether a thread had what the knob names.
func (a aim) wasMet(h had) bool {
	if a.policy != nil {
		return a.same(h, *a.policy)
	}
	return h.slice == a.slice
}

// same reports whether x and y are equal in what the knob names.
func (a aim) same(x, y had) bool {
	if a.policy != nil {
		return x.class == y.class && x.priority == y.priority
	}
	return x.slice == y.slice
}

// named returns h for a message: for a policy without the slice.
func (a aim) named(h had) had {
	if a.policy != nil {
		h.slice = 0
	}
	return h
}

// has returns what a thread has, in the form of the journal.
func has(s kernel.Scheduled, base time.Duration) had {
	h := had{class: s.Class, priority: s.Priority}
	if s.Class.HasSlice() && s.Slice != base {
		h.slice = s.Slice
	}
	return h
}

// with returns a thread's setting after it was given what the knob names.
func (a aim) with(s kernel.Scheduled, base time.Duration) kernel.Scheduled {
	own := has(s, base).slice
	if a.policy != nil {
		return a.policy.given(s, own)
	}
	s.Slice = a.slice
	return s
}

// without returns a thread's setting after it was given back what it had.
func (a aim) without(s kernel.Scheduled, h had) kernel.Scheduled {
	if a.policy != nil {
		return h.given(s, h.slice)
	}
	s.Slice = h.slice
	return s
}

// given returns s with the policy of h, and with the slice own if that policy has slices.
func (h had) given(s kernel.Scheduled, own time.Duration) kernel.Scheduled {
	s.Class, s.Priority, s.Slice = h.class, h.priority, 0
	if h.class.HasSlice() {
		s.Slice = own
	}
	return s
}
