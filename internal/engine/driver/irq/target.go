package irq

import (
	"cmp"
	"fmt"
	"path"
	"strconv"
	"strings"

	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// Driver is the kind of the targets of this package.
const Driver plan.Driver = "irq"

const (
	numbers    = "/proc/irq"
	described  = "/sys/kernel/irq"
	knobList   = "smp_affinity_list"
	knobOfNext = "default_smp_affinity"
	onlineCPUs = "/sys/devices/system/cpu/online"
)

// Is reports whether a file belongs to this package.
func Is(file string) bool { return strings.HasPrefix(file, numbers+"/") }

// Target returns the interrupt that a file belongs to at this moment, or the default of later interrupts. The error is
// fs.ErrNotExist if there is no such interrupt, and ErrOutside for any other file.
func Target(root *hostfs.Root, file string) (plan.Target, error) {
	if file == numbers+"/"+knobOfNext {
		return plan.Target{Driver: Driver, Object: numbers, Knob: knobOfNext}, nil
	}
	number := path.Base(path.Dir(file))
	if _, err := strconv.Atoi(number); err != nil || file != path.Join(numbers, number, knobList) {
		return plan.Target{}, fmt.Errorf("%s: %w", file, ErrOutside)
	}
	if _, err := root.ID(file); err != nil {
		return plan.Target{}, err
	}
	return plan.Target{Driver: Driver, Object: nameOf(root, number), Knob: knobList}, nil
}

// File returns the file of a target. The error is fs.ErrNotExist if the interrupt is gone.
func File(root *hostfs.Root, t plan.Target) (string, error) {
	if t.Knob == knobOfNext {
		return path.Join(numbers, knobOfNext), nil
	}
	number, known := numberOf(t.Object)
	if !known {
		return "", fmt.Errorf("interrupt %q has no number: %w", t.Object, errUnseen)
	}
	return path.Join(numbers, number, knobList), still(root, t.Object, number)
}

// nameOf returns the name of the interrupt with a number: the number, the chip, and the number within the chip. If the
// chip has no such number (Xen's event channels), the actions are used instead. Actions are a last resort: a driver
// changes them while the interrupt stays, as when a network interface is renamed. If the kernel does not describe the
// interrupt, as in recorded trees, the name is the number alone.
func nameOf(root *hostfs.Root, number string) string {
	text := func(file string) string {
		content, err := root.ReadFile(path.Join(described, number, file))
		if err != nil {
			return ""
		}
		return strings.TrimSpace(string(content))
	}
	return strings.Join(strings.Fields(strings.Join([]string{bare(number), text("chip_name"), cmp.Or(text("hwirq"), text("actions"))}, " ")), " ")
}

// bare returns the name of an interrupt that the kernel does not describe.
func bare(number string) string { return "irq " + number }

// numberOf returns the number in a name, and false if nameOf does not make such names.
func numberOf(name string) (string, bool) {
	words := strings.Fields(name)
	if len(words) < 2 || words[0] != "irq" {
		return "", false
	}
	_, err := strconv.ParseUint(words[1], 10, 32)
	return words[1], err == nil
}

// parse returns the CPUs of a value.
func parse(t plan.Target, v plan.Value) (cpuset.Set, error) {
	if t.Knob == knobOfNext {
		return cpuset.ParseMask(string(v))
	}
	return cpuset.Parse(string(v))
}

// same compares two values as sets.
func same(t plan.Target, a, b plan.Value) bool {
	left, errLeft := parse(t, a)
	right, errRight := parse(t, b)
	return a == b || errLeft == nil && errRight == nil && left == right
}
