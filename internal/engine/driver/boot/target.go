package boot

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/bootargs"
)

// Driver is the kind of the targets of this package.
const Driver plan.Driver = "boot"

// The forms of targets that are not files of boot arguments.
const (
	menu bootargs.Form = "menu"
	next bootargs.Form = "next"
)

// The values of a missing file, and of a next entry that is the usual one.
const (
	absent plan.Value = "no file"
	bare   plan.Value = "no directory"
	none   plan.Value = "none"
	// cleared means that next_entry in GRUB's environment block is present and empty, as a boot leaves it.
	cleared plan.Value = "cleared"
)

// Trial is the value of the next entry for a trial boot.
const Trial plan.Value = bootargs.TrialID

// FileTarget returns the target of a file that a plan changes, and its value after the change.
func FileTarget(f bootargs.File) (plan.Target, plan.Value) {
	return target(f.Name, f.Form, f.Want), quoted(f.After)
}

// MenuTarget returns the target of GRUB's configuration, and its value once all entries have the arguments.
func MenuTarget(file string, tokens []string) (plan.Target, plan.Value) {
	return target(file, menu, tokens), plan.Value(strings.Join(tokens, " "))
}

// NextTarget returns the target of the file that names the entry of the next boot. The plan of a trial has this file as
// its mark.
func NextTarget(mark string) plan.Target { return target(mark, next, nil) }

func target(file string, f bootargs.Form, tokens []string) plan.Target {
	return plan.Target{Driver: Driver, Object: "/" + file, Knob: strings.TrimSpace(string(f) + " " + strings.Join(tokens, " "))}
}

// aim returns the form and the boot arguments that a knob names.
func aim(t plan.Target) (f bootargs.Form, tokens []string) {
	words := strings.Fields(t.Knob)
	if len(words) == 0 {
		return "", nil
	}
	return bootargs.Form(words[0]), words[1:]
}

// IsUsual reports whether the next boot uses the usual entry, because no program chose another.
func IsUsual(v plan.Value) bool { return v == none || v == cleared }

// Step is the place of a target in the order of an undo. The entry of the trial boot comes first; the configuration,
// which is made from the other files, comes last.
type Step int

// The steps of an undo.
const (
	Next Step = iota
	Files
	Menu
)

// StepOf returns the step at which a target is written.
func StepOf(t plan.Target) Step {
	switch f, _ := aim(t); f {
	case next:
		return Next
	case menu:
		return Menu
	}
	return Files
}

// IsTrial reports whether a target exists only for a trial boot.
func IsTrial(t plan.Target) bool {
	f, _ := aim(t)
	return f == next || f == bootargs.FormTrial || f == bootargs.FormPart
}

// Shown returns a value for people: the size of a file instead of its text.
func Shown(v plan.Value) plan.Value {
	if text, there := unquoted(v); there {
		return plan.Value(fmt.Sprintf("%d bytes", len(text)))
	}
	return v
}

// Values returns what the kind says about its values without a host.
func Values() plan.Kinds {
	return plan.Kinds{Driver: {Same: same, Mangled: mangled, Lifetime: plan.Persistent}}
}

func same(t plan.Target, a, b plan.Value) bool {
	f, _ := aim(t)
	return a == b || f == next && IsUsual(a) && IsUsual(b)
}

// mangled reports whether v is partly Berth's: a file that was changed later and still has something of Berth's, or a
// directory that a crash left without its file.
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

// Undone returns the text of a file that has the text now, once its entry in the journal is restored.
func Undone(t plan.Target, recorded plan.Value, now string) string {
	text, _ := unquoted(back(t, recorded, now))
	return text
}

// back returns the value that restoring recorded gives to a file that has the text now.
func back(t plan.Target, recorded plan.Value, now string) plan.Value {
	before, there := unquoted(recorded)
	f, tokens := aim(t)
	file := bootargs.File{Form: f, Missing: !there}
	switch f {
	case bootargs.FormEntry, bootargs.FormLabels, bootargs.FormPlain:
		file = bootargs.Changed("", before, f, tokens)
	case bootargs.FormOwn: // without Berth's text the file is another program's
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
