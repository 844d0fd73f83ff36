package knob

import (
	"slices"
	"strconv"
	"strings"
)

// Unit says what the values of a knob are.
type Unit string

// The units.
const (
	// Duration is a time with unit, such as 3ms.
	Duration Unit = "duration"
	// Count is a whole number.
	Count Unit = "number"
	// Choice is one of the kernel's words.
	Choice Unit = "word"
	// CPUs is the name of a set of the profile, or a CPU list.
	CPUs Unit = "CPUs"
	// Text is what the file takes, for sysctls of any name.
	Text Unit = "text"
)

// Class says how exactly a change can be undone.
type Class string

// The classes, from the best.
const (
	// Exact: the original value puts back what was.
	Exact Class = "exact"
	// SideEffects: the value goes back, what it did meanwhile stays.
	SideEffects Class = "sideEffects"
	// Lossy: some kernels forget something that is no part of the value.
	Lossy Class = "lossy"
	// Restart: the service has to be started again.
	Restart Class = "restart"
	// Reboot: the next boot changes it, and undoes it.
	Reboot Class = "reboot"
)

// Risk says what a wrong value can do.
type Risk string

// The risks.
const (
	Low    Risk = "low"
	Medium Risk = "medium"
	High   Risk = "high"
)

// Phase is the part of an apply in which a knob is written: partitions reset slices, and an
// interrupt mask is of use only when the CPUs are there. An undo goes backwards, but for a
// partition, which ends before its CPUs change, and writes the slices last again.
type Phase int

// The phases, in the order of an apply.
const (
	// Tightened is a limit of real-time threads that is tighter than the one before: given first, so that what comes
	// after it starves nobody, and taken back last.
	Tightened Phase = iota
	// Exclusives are the CPUs that partitions are made of.
	Exclusives
	Partitions
	Workqueues
	Interrupts
	// Budgets are those of groups for real-time threads, which units' policies need.
	Budgets
	Units
	Governors
	// Preferences are decided about by governors, and may be refused before them.
	Preferences
	Plain
	Slices
	// Boot is what the next boot brings about.
	Boot
	// RealTime is any other limit of real-time threads: given last, and taken back first where that tightens it. Where
	// these threads have all, no disk and nothing else that waits for a thread of the kernel may answer.
	RealTime
)

// Word is a value in the catalogue's words and as the file has it.
type Word struct{ Text, File string }

// Place is where a knob is on some kernels.
type Place struct {
	// Kernels says on which, for people; it decides nothing.
	Kernels string
	// File is the path on the host. A part with a pattern of path.Match stands for every
	// instance, such as one CPU.
	File string
	// Scale is how many nanoseconds one in the file means; 0 is 1.
	Scale int64
	// Mask says that CPUs are a hexadecimal mask there, not a list.
	Mask bool
	// Only is a pattern of a file that an instance must have to count.
	Only string
	// Now is a file beside it with the value that was requested, where File has another.
	Now string
	// Effective is a file beside it with the CPUs that the host made of it.
	Effective string
	// Allowed is a file beside it with the words it takes.
	Allowed string
	// Again is a file that is written with its own value afterwards: the kernel keeps a
	// second copy of the value, which only that write brings up to date.
	Again string
	// Scaled says that the kernel multiplies the value anew when CPUs come or go (update_sysctl in
	// kernel/sched/fair.c), which leaves a rounding.
	Scaled bool
	// Shown is a file that shows the value where File cannot be opened.
	Shown *Shown
}

// Shown is a line of a file that shows a value.
type Shown struct {
	File, Line string
	// Scale is how many nanoseconds one in the line means.
	Scale int64
}

// Read finds the value in the text of the file, in nanoseconds.
func (s Shown) Read(text string) (n int64, found bool) {
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(line, ":")
		if strings.TrimSpace(name) != s.Line {
			continue
		}
		if n, err := strconv.ParseFloat(strings.TrimSpace(value), 64); err == nil {
			return int64(n * float64(s.Scale)), true
		}
	}
	return 0, false
}

// Knob is one setting.
type Knob struct {
	Name  string
	About string
	Unit  Unit
	// Low and High bound a duration, in nanoseconds, or a number; Step is what they are
	// multiples of.
	Low, High, Step int64
	// SafeLow and SafeHigh bound what is advised, 0 and 0 for everything.
	SafeLow, SafeHigh int64
	// Words are fixed words; of a Choice without them the host says which it takes.
	Words []Word
	// Effective says how the value that counts is read.
	Effective string
	Class     Class
	Risk      Risk
	Phase     Phase
	// Trap is what has to be known about it.
	Trap string
	// Harm is what a value outside the advised range does to the host; empty where it is
	// no worse than useless.
	Harm   string
	Places []Place
}

// Lookup returns the knob of a name: one of the catalogue, or "sysctl." and the name of a
// sysctl.
func Lookup(name string) (Knob, bool) {
	if key, is := sysctlKey(name); is {
		return sysctl(key)
	}
	all := Catalogue()
	i := slices.IndexFunc(all, func(k Knob) bool { return k.Name == name })
	if i < 0 {
		return Knob{}, false
	}
	return all[i], true
}

// Names returns the names of the catalogue, in its order.
func Names() []string {
	var names []string
	for _, k := range Catalogue() {
		names = append(names, k.Name)
	}
	return names
}

// Advised says whether a value of the unit's scale is in the advised range.
func (k Knob) Advised(n int64) bool {
	return k.SafeLow == 0 && k.SafeHigh == 0 || n >= k.SafeLow && n <= k.SafeHigh
}
