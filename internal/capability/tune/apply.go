package tune

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/berth-project/berth/internal/linux/knob"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// Division is a plan divided for an apply.
type Division struct {
	// Write are the desired settings of the host in order, including those that it has already.
	Write []Setting
	// Left are the settings that an apply omits and reports: optional ones, and those that the kernel manages itself.
	Left []Setting
	// Boot are the boot arguments, each with its state in the running kernel.
	Boot []Setting
	// Blocked are the settings that prevent an apply.
	Blocked []Setting
}

// Divide divides a plan by what an apply does with each setting.
func (p Plan) Divide() Division {
	var d Division
	for _, s := range p.Settings {
		switch {
		case s.Phase == knob.Boot && s.Support == knob.Settable:
			if s.File == cmdline { // other settings are lines of files
				d.Boot = append(d.Boot, s)
			}
		case s.Support == knob.Settable && s.Write != "":
			d.Write = append(d.Write, s)
		case s.Optional, s.Fixed && s.Phase == knob.Interrupts:
			d.Left = append(d.Left, s)
		default:
			d.Blocked = append(d.Blocked, s)
		}
	}
	return d
}

// State is the present state of an applied setting.
type State string

// The states of a setting.
const (
	// OK: the host has the value.
	OK State = "ok"
	// Drift: the host has another value.
	Drift State = "drift"
	// Ignored: the file has the value, but the host behaves differently.
	Ignored State = "ignored"
	// Pending: an interrupt has the value, and the kernel moves it when it next fires.
	Pending State = "pending"
	// Partial: the kernel has fewer than desired, for example huge pages without memory for all of them.
	Partial State = "partial"
	// PendingReboot: the next boot applies the value.
	PendingReboot State = "pendingReboot"
	// Dormant: the setting's CPUs are offline, and nothing of it is in effect.
	Dormant State = "dormant"
	// Gone: the file no longer exists.
	Gone State = "absent"
	// Unreadable: this program cannot read the value.
	Unreadable State = "unreadable"
	// Unproven: the file has the value, and nothing shows whether the kernel keeps to it.
	Unproven State = "unknown"
)

// Verified is one applied setting, with the host's present value. Its JSON is a stable contract.
type Verified struct {
	Knob      string `json:"knob"`
	Instance  string `json:"instance"`
	File      string `json:"file"`
	Want      string `json:"want"`
	Effective string `json:"effective"`
	State     State  `json:"state"`
	// Reason has the kernel's figures of an ignored limit of idle states, or why its state is unknown. It also says that
	// the last apply left a setting out.
	Reason string `json:"reason,omitempty"`
	// Elsewhere is how many bytes of a unit's memory are on other NUMA nodes, although its memory nodes are ok. It is 0
	// below 1 MiB.
	Elsewhere int64 `json:"elsewhere,omitempty"`

	// Stopped is true if the setting waits for its unit, which does not run.
	Stopped bool `json:"-"`
}

// Differs reports whether the host lacks the value, and will not have it by itself. It is false for an offline CPU, and
// for a state that is unknown.
func (s Verified) Differs() bool {
	return s.State != OK && s.State != Pending && s.State != Dormant && s.State != Unproven
}

// String describes a setting and its state.
func (s Verified) String() string {
	text := fmt.Sprintf("%s is %s: %q, want %q", Name(s.Knob, s.Instance), s.State, s.Effective, s.Want)
	if s.Reason != "" {
		text += " (" + s.Reason + ")"
	}
	return text
}

// Verify compares one setting with the host's values of its knob. made is what the kernel made of a write that it may
// apply in part, "" if unknown. effective returns the CPUs that the host derived from a file, "" if it does not show
// them.
func Verify(s Verified, found []knob.Found, made string, effective func(knob.Found) string) Verified {
	i := slices.IndexFunc(found, func(f knob.Found) bool { return f.File == s.File })
	if i < 0 {
		s.State = Gone
		if slices.ContainsFunc(found, func(f knob.Found) bool { return f.Support == knob.Unknown }) {
			s.State = Unreadable
		}
		return s
	}
	s.Effective = found[i].Now
	switch {
	case found[i].Dormant:
		s.State = Dormant
	case s.Effective == "" && s.Want != "":
		s.State = Unreadable
	case s.Effective != s.Want && (!found[i].Place.Scaled || !near(s.Effective, s.Want)):
		s.State = Drift
		if isPart(s, made) {
			s.State = Partial
		}
	default:
		s.State = OK
		if made := effective(found[i]); made != "" && !within(made, s.Want) {
			s.Effective, s.State = made, Ignored
		}
	}
	return s
}

// near reports whether two slices are near each other.
func near(a, b string) bool {
	x, errX := time.ParseDuration(a)
	y, errY := time.ParseDuration(b)
	return errX == nil && errY == nil && Near(x, y)
}

// Near reports whether two slices differ at most by the kernel's rounding when it scales them.
func Near(x, y time.Duration) bool {
	const rounding = 4 * time.Nanosecond
	return (x - y).Abs() <= rounding
}

// isPart reports whether the host has what the kernel made of a setting that it may apply in part. Without a record of
// that, any part is accepted.
func isPart(s Verified, made string) bool {
	if made == "" {
		made = s.Effective
	}
	return s.Effective == made && knob.OnTheWay(s.File, made, "0", s.Want)
}

func within(list, of string) bool {
	inner, errInner := cpuset.Parse(list)
	outer, errOuter := cpuset.Parse(of)
	return errInner == nil && errOuter == nil && inner.IsSubsetOf(outer)
}

// Name returns the name of a setting for people: its knob with its instance, if it has one.
func Name(knobName, instance string) string { return strings.TrimSpace(knobName + " " + instance) }

// Name returns the setting's knob with its instance.
func (s Setting) Name() string { return Name(s.Knob, s.Instance) }
