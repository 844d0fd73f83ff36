package irq

import (
	"fmt"
	"path"
	"strconv"
	"strings"

	"github.com/berth-project/berth/internal/cpuset"
	"github.com/berth-project/berth/internal/hostfs"
	"github.com/berth-project/berth/internal/plan"
)

// Driver is the kind of targets of this package.
const Driver plan.Driver = "irq"

const (
	numbers    = "/proc/irq"
	described  = "/sys/kernel/irq"
	knobList   = "smp_affinity_list"
	knobOfNext = "default_smp_affinity"
)

// Is says whether a file is one of this package.
func Is(file string) bool { return strings.HasPrefix(file, numbers+"/") }

// Target is the interrupt whose file that is at this moment, or the default. The error is
// fs.ErrNotExist for one that is not there, and ErrOutside for another file.
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

// nameOf names the interrupt of a number. Where the kernel does not describe it, as in
// recorded trees, the number is all there is.
func nameOf(root *hostfs.Root, number string) string {
	parts := []string{"irq"}
	for _, file := range []string{"chip_name", "hwirq", "actions"} {
		text, err := root.ReadFile(path.Join(described, number, file))
		if err != nil {
			return "irq " + number
		}
		parts = append(parts, strings.TrimSpace(string(text)))
	}
	return strings.TrimSpace(strings.Join(parts, " "))
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
