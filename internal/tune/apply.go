package tune

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/berth-project/berth/internal/cpuset"
	"github.com/berth-project/berth/internal/knob"
)

// Division is a plan as an apply takes it.
type Division struct {
	// Write are the settings that the host shall have, those that stand included, in order.
	Write []Setting
	// Left are those that an apply leaves out and reports: optional ones, and what the
	// kernel manages itself.
	Left []Setting
	// Boot are the boot arguments, each as the running kernel has it.
	Boot []Setting
	// Blocked are those without which nothing is applied.
	Blocked []Setting
}

// Divide says what an apply does with each setting of a plan.
func (p Plan) Divide() Division {
	var d Division
	for _, s := range p.Settings {
		switch {
		case s.Phase == knob.Boot && s.Support == knob.Settable:
			if s.File == cmdline { // the others are lines of files
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

// State says what became of a setting that was applied.
type State string

// The states of a setting.
const (
	// OK: the host has the value.
	OK State = "ok"
	// Drift: it has another one.
	Drift State = "drift"
	// Ignored: the file has the value, and the host does something else.
	Ignored State = "ignored"
	// Pending: an interrupt has it, and the kernel moves it when it fires next.
	Pending State = "pending"
	// Partial: the kernel has fewer of what was asked for, as of huge pages without memory for all.
	Partial State = "partial"
	// PendingReboot: the next boot brings it.
	PendingReboot State = "pendingReboot"
	// Dormant: its CPUs are offline, and nothing of it is in force.
	Dormant State = "dormant"
	// Gone: the file is not there any more.
	Gone State = "absent"
	// Unreadable: it cannot be known from here.
	Unreadable State = "unreadable"
)

// Verified is one setting that was applied, as the host has it now. Its JSON is a stable
// contract.
type Verified struct {
	Knob      string `json:"knob"`
	Instance  string `json:"instance"`
	File      string `json:"file"`
	Want      string `json:"want"`
	Effective string `json:"effective"`
	State     State  `json:"state"`
}

// Differs says that the host does not have the value, and will not have it by itself; of a CPU that is offline
// nobody knows.
func (s Verified) Differs() bool { return s.State != OK && s.State != Pending && s.State != Dormant }

// String says of a setting what became of it.
func (s Verified) String() string {
	return fmt.Sprintf("%s is %s: %q, want %q", strings.TrimSpace(s.Knob+" "+s.Instance), s.State, s.Effective, s.Want)
}

// Verify compares one setting with what a host has of its knob. Made is what the kernel made of the write of a
// setting that it may take in part, "" where that is not known. Effective returns the CPUs that the host made of
// a file, "" where it does not say.
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

// near says whether two slices are the same but for what the kernel rounds when it scales
// them.
func near(a, b string) bool {
	const rounding = 4 * time.Nanosecond
	x, errX := time.ParseDuration(a)
	y, errY := time.ParseDuration(b)
	return errX == nil && errY == nil && (x-y).Abs() <= rounding
}

// isPart says whether the host has what the kernel made of a setting that it takes in part. Where no record says
// what that was, it may be any part.
func isPart(s Verified, made string) bool {
	if made == "" {
		made = s.Effective
	}
	return s.Effective == made && knob.OnTheWay(s.File, made, "0", s.Want)
}

// within says whether a list of CPUs is part of another one.
func within(list, of string) bool {
	inner, errInner := cpuset.Parse(list)
	outer, errOuter := cpuset.Parse(of)
	return errInner == nil && errOuter == nil && inner.IsSubsetOf(outer)
}

// Name is the setting's knob with its instance.
func (s Setting) Name() string { return strings.TrimSpace(s.Knob + " " + s.Instance) }
