package knob

import (
	"slices"
	"strconv"
	"strings"
)

// Unit is the kind of a knob's values.
type Unit string

// The units.
const (
	// Duration is a time with a unit, such as 3ms.
	Duration Unit = "duration"
	// Count is a whole number.
	Count Unit = "number"
	// Choice is one of the kernel's words.
	Choice Unit = "word"
	// CPUs is the name of a CPU set of the profile, or a CPU list.
	CPUs Unit = "CPUs"
	// Text is any text that the file accepts. It is for sysctls of any name.
	Text Unit = "text"
)

// Class says how exactly a change can be undone.
type Class string

// The classes, the best first.
const (
	// Exact means that the original value restores the former state.
	Exact Class = "exact"
	// SideEffects means that undo restores the value, but not the effects that it had in the meantime.
	SideEffects Class = "sideEffects"
	// Lossy means that a change may destroy state of the kernel beyond the value, such as routes, and that an undo does
	// not restore that state.
	Lossy Class = "lossy"
	// Restart means that the service must be restarted.
	Restart Class = "restart"
	// Reboot means that the change and its undo take effect at the next boot.
	Reboot Class = "reboot"
)

// Risk is the possible damage of a wrong value.
type Risk string

// The risks.
const (
	Low    Risk = "low"
	Medium Risk = "medium"
	High   Risk = "high"
)

// Phase is the part of an apply in which a knob is written. Partitions reset slices, and an interrupt mask is useful
// only when its CPUs are there. An undo runs in reverse order, except that a partition ends before its CPUs change, and
// that knobs which wait for a kernel thread come late. The undo also writes the slices again.
type Phase int

// The phases, in the order of an apply.
const (
	// Tightened is a limit of real-time threads that is tighter than the former limit. It is applied first, so that
	// later settings starve no thread, and restored last.
	Tightened Phase = iota
	// Exclusives are the CPUs from which partitions are made.
	Exclusives
	Partitions
	Workqueues
	Interrupts
	// Budgets are the groups' budgets for real-time threads, which the policies of units need.
	Budgets
	Units
	Governors
	// Preferences depend on governors. The kernel may refuse a preference before the governor is written.
	Preferences
	Plain
	Slices
	// Boot settings take effect at the next boot.
	Boot
	// RealTime is any other limit of real-time threads. It is applied last. An undo restores it first if the former
	// limit is tighter. If real-time threads may use all CPU time, a disk or anything else that waits for a kernel
	// thread may not answer.
	RealTime
)

// Word is a value: Text in the catalogue, and File in the kernel's file.
type Word struct{ Text, File string }

// Place is the location of a knob on some kernels.
type Place struct {
	// Kernels names these kernels for people; Berth does not evaluate it.
	Kernels string
	// File is the path on the host. A path element with a pattern of path.Match stands for every instance, such as one
	// CPU.
	File string
	// Scale is the number of nanoseconds that 1 in the file means; 0 is 1.
	Scale int64
	// Mask is true if the file has CPUs as a hexadecimal mask, not as a list.
	Mask bool
	// Only is a pattern of another file that each instance must have.
	Only string
	// Now is a file in the same directory with the requested value, if File has another value.
	Now string
	// Effective is a file in the same directory with the CPUs that the host uses as a result.
	Effective string
	// Allowed is a file in the same directory with the words that File accepts.
	Allowed string
	// Again is a file that Berth rewrites afterwards with the file's own value. The kernel has a second copy of the
	// knob's value, which only that write updates.
	Again string
	// Scaled is true if the kernel multiplies the value again when CPUs come or go (update_sysctl in
	// kernel/sched/fair.c), which leaves a rounding error.
	Scaled bool
	// Shown is another file that shows the value, for when File cannot be opened.
	Shown *Shown
}

// Shown is a line of a file that shows a value.
type Shown struct {
	File, Line string
	// Scale is the number of nanoseconds that 1 in the line means.
	Scale int64
}

// Read finds the value in the text of the file, and returns it in nanoseconds.
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
	// Low and High bound a number, or a duration in nanoseconds. Values are multiples of Step.
	Low, High, Step int64
	// SafeLow and SafeHigh bound the advised range; 0 and 0 mean any value.
	SafeLow, SafeHigh int64
	// Words are fixed words, and the numbers in the file if they differ. For a Choice without Words, the host lists the
	// words that it accepts.
	Words []Word
	// Effective says how to read the value in effect.
	Effective string
	Class     Class
	Risk      Risk
	Phase     Phase
	// WaitsForThread says that a write may start or stop a kernel thread, and waits until that thread ran.
	WaitsForThread bool
	// Trap is what a user must know about the knob.
	Trap string
	// Harm is what a value outside the advised range does to the host. It is empty if such a value is merely useless.
	Harm   string
	Places []Place
}

// Lookup returns the knob with a name: the name of a knob in the catalogue, or "sysctl." and the name of a sysctl.
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

// Advised reports whether a value in the unit's scale is in the advised range.
func (k Knob) Advised(n int64) bool {
	return k.SafeLow == 0 && k.SafeHigh == 0 || n >= k.SafeLow && n <= k.SafeHigh
}
