package hostfile

import (
	"fmt"
	"math"
	"path"
	"strconv"
	"strings"

	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/knob"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// Driver is the kind of the targets of this package.
const Driver plan.Driver = "file"

// Target returns the target of a path, such as /proc/sys/vm/stat_interval. The error is ErrOutside.
func Target(file string) (plan.Target, error) {
	t := plan.Target{Driver: Driver, Object: path.Dir(file), Knob: path.Base(file)}
	if path.Clean(file) != file {
		return plan.Target{}, fmt.Errorf("%s: %w", file, ErrOutside)
	}
	_, _, err := split(t)
	return t, err
}

// The trees of the targets. Two more file systems are mounted in /sys: debugfs, and control groups, which have their
// own driver.
const (
	sysctls = "/proc/sys"
	sysfs   = "/sys"
	debugfs = "/sys/kernel/debug"
	cgroups = "/sys/fs/cgroup"
)

// interfaces has a directory for each network interface.
const interfaces = "/sys/class/net"

// networkInterface returns the interface of a sysctl. It is "" for other sysctls, and for the values of all or of new
// interfaces.
func networkInterface(t plan.Target) string {
	below, isNetwork := strings.CutPrefix(t.Object, sysctls+"/net/")
	parts := strings.Split(below, "/") // protocol, group of settings, interface
	if !isNetwork || len(parts) != 3 || parts[1] != "conf" && parts[1] != "neigh" || parts[2] == "all" || parts[2] == "default" {
		return ""
	}
	return parts[2]
}

// split returns the tree of a target, and the target's directory relative to the tree.
func split(t plan.Target) (tree, dir string, err error) {
	named := t.Knob != "" && path.Join(t.Object, path.Base(t.Knob)) == t.Object+"/"+t.Knob
	for _, tree := range []string{sysctls, debugfs, sysfs} {
		if named && within(t.Object, tree) && !within(t.Object, cgroups) {
			return tree, strings.TrimPrefix(t.Object, tree), nil
		}
	}
	return "", "", fmt.Errorf("%s: %w", t, ErrOutside)
}

// within reports whether a clean path is dir or lies below it.
func within(name, dir string) bool { return name == dir || strings.HasPrefix(name, dir+"/") }

// parse returns the value in the text of a file.
func parse(t plan.Target, text string) plan.Value {
	words := strings.Fields(text)
	if tree, _, err := split(t); err == nil && tree != sysctls {
		for _, word := range words {
			if choice, ok := chosen(tree, word); ok {
				return plan.Value(choice)
			}
		}
	}
	return plan.Value(strings.Join(words, " "))
}

// chosen returns the word inside brackets, or inside parentheses in debugfs.
func chosen(tree, word string) (string, bool) {
	left, right := "[", "]"
	if tree == debugfs {
		left, right = "(", ")"
	}
	inner, opened := strings.CutPrefix(word, left)
	inner, closed := strings.CutSuffix(inner, right)
	return inner, opened && closed && inner != ""
}

// same compares two values. It ignores spacing, leading zeros of masks, and the rounding errors of scaled slices.
func same(t plan.Target, a, b plan.Value) bool {
	a, b = parse(t, string(a)), parse(t, string(b))
	if a == b {
		return true
	}
	at := place(t)
	if at.Scaled {
		return scaled(a, b, 1, 1)
	}
	left, errLeft := cpuset.ParseMask(string(a))
	right, errRight := cpuset.ParseMask(string(b))
	return at.Mask && errLeft == nil && errRight == nil && left == right
}

// part reports whether v may be the number of huge pages after a partial change: the kernel allocates as many pages as
// it has memory for.
func part(t plan.Target, v, from, to plan.Value) bool {
	return knob.OnTheWay(t.Object+"/"+t.Knob, string(v), string(from), string(to))
}

// factors is the largest factor of a slice: 1 + log2 of the number of online CPUs, limited to 8 CPUs
// (get_update_sysctl_factor in kernel/sched/fair.c).
const factors = 4

// rescaled reports whether v is a recorded slice that the kernel scaled when CPUs came or went. The kernel multiplies
// its slice for one CPU by the new factor.
func rescaled(t plan.Target, v, recorded plan.Value) bool {
	if !place(t).Scaled {
		return false
	}
	for now := range int64(factors) {
		for then := range int64(factors) {
			if scaled(v, recorded, now+1, then+1) {
				return true
			}
		}
	}
	return false
}

// scaled reports whether v is recorded * now / then, up to rounding: the kernel divides before it multiplies.
func scaled(v, recorded plan.Value, now, then int64) bool {
	is, errIs := strconv.ParseInt(string(v), 10, 64)
	was, errWas := strconv.ParseInt(string(recorded), 10, 64)
	if errIs != nil || errWas != nil || was > math.MaxInt64/factors {
		return false
	}
	exact := was * now / then
	return is <= exact+factors && is >= exact-factors
}

// place returns what the catalogue of knobs says about a file.
func place(t plan.Target) knob.Place {
	_, at, _ := knob.At(t.Object + "/" + t.Knob) // the zero Place if the catalogue does not have it
	return at
}
