package boot

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/berth-project/berth/internal/bootargs"
	"github.com/berth-project/berth/internal/plan"
)

// Driver is the kind of targets of this package.
const Driver plan.Driver = "boot"

// The forms of what is no file of arguments.
const (
	menu bootargs.Form = "menu"
	next bootargs.Form = "next"
)

// The values of a file that is not there, and of a next entry that is the usual one.
const (
	absent plan.Value = "no file"
	bare   plan.Value = "no directory"
	none   plan.Value = "none"
	// cleared is a line of GRUB's block without a value, as a boot leaves it.
	cleared plan.Value = "cleared"
)

// Trial is the value of the next entry for a boot on trial.
const Trial plan.Value = bootargs.TrialID

// FileTarget is a file that a plan changes, and its value then.
func FileTarget(f bootargs.File) (plan.Target, plan.Value) {
	return target(f.Name, f.Form, f.Want), quoted(f.After)
}

// MenuTarget is GRUB's configuration, and its value when all entries have the arguments.
func MenuTarget(file string, tokens []string) (plan.Target, plan.Value) {
	return target(file, menu, tokens), plan.Value(strings.Join(tokens, " "))
}

// NextTarget is what names the entry of the next boot: the file that the plan of a trial has as its
// mark.
func NextTarget(mark string) plan.Target { return target(mark, next, nil) }

func target(file string, f bootargs.Form, tokens []string) plan.Target {
	return plan.Target{Driver: Driver, Object: "/" + file, Knob: strings.TrimSpace(string(f) + " " + strings.Join(tokens, " "))}
}

// aim returns what a knob names.
func aim(t plan.Target) (f bootargs.Form, tokens []string) {
	words := strings.Fields(t.Knob)
	if len(words) == 0 {
		return "", nil
	}
	return bootargs.Form(words[0]), words[1:]
}

// IsUsual says of a next entry that no program chose another one than the usual.
func IsUsual(v plan.Value) bool { return v == none || v == cleared }

// Step is where a target is in the order of an undo: what makes the trial boot goes first, and
// what is made of other files goes after them.
type Step int

// The steps of an undo.
const (
	Next Step = iota
	Files
	Menu
)

// StepOf returns the step of a target.
func StepOf(t plan.Target) Step {
	switch f, _ := aim(t); f {
	case next:
		return Next
	case menu:
		return Menu
	}
	return Files
}

// IsTrial says that a target is there for a boot on trial only.
func IsTrial(t plan.Target) bool {
	f, _ := aim(t)
	return f == next || f == bootargs.FormTrial || f == bootargs.FormPart
}

// Shown is a value for people: of a file not its text.
func Shown(v plan.Value) plan.Value {
	if text, there := unquoted(v); there {
		return plan.Value(fmt.Sprintf("%d bytes", len(text)))
	}
	return v
}

// Values returns what the kind says of its values without a host.
func Values() plan.Kinds {
	return plan.Kinds{Driver: {Same: same, Mangled: mangled, Lifetime: plan.Persistent}}
}

func same(t plan.Target, a, b plan.Value) bool {
	f, _ := aim(t)
	return a == b || f == next && IsUsual(a) && IsUsual(b)
}

// mangled says that something of Berth's stands in a file that was changed since, or in one that a
// crash left half made.
func mangled(t plan.Target, v, recorded plan.Value) bool {
	if v == absent && recorded == bare {
		return true
	}
	now, there := unquoted(v)
	if f, _ := aim(t); !there || f == menu || f == next {
		return false
	}
	return back(t, recorded, now) != v
}

// Undone is the text of a file once its entry in the journal is put back, given what it has now.
func Undone(t plan.Target, recorded plan.Value, now string) string {
	text, _ := unquoted(back(t, recorded, now))
	return text
}

// back is what a file becomes on the way back to a recorded value, given what it has now.
func back(t plan.Target, recorded plan.Value, now string) plan.Value {
	before, there := unquoted(recorded)
	f, tokens := aim(t)
	file := bootargs.File{Form: f, Missing: !there}
	switch f {
	case bootargs.FormEntry, bootargs.FormLabels, bootargs.FormPlain:
		file = bootargs.Changed("", before, f, tokens)
	case bootargs.FormOwn: // without the text that Berth wrote, another program's is left
		return quoted(now)
	}
	text, left := file.Undo(now)
	switch {
	case left:
		return quoted(text)
	case recorded == bare:
		return bare
	}
	return absent
}

func quoted(text string) plan.Value { return plan.Value(strconv.Quote(text)) }

func unquoted(v plan.Value) (text string, there bool) {
	text, err := strconv.Unquote(string(v))
	return text, err == nil
}
