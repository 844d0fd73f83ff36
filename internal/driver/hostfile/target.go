package hostfile

import (
	"fmt"
	"math"
	"path"
	"strconv"
	"strings"

	"github.com/berth-project/berth/internal/cpuset"
	"github.com/berth-project/berth/internal/knob"
	"github.com/berth-project/berth/internal/plan"
)

// Driver is the kind of targets of this package.
const Driver plan.Driver = "file"

// Target is the file of a path, such as /proc/sys/vm/stat_interval. The error is
// ErrOutside.
func Target(file string) (plan.Target, error) {
	t := plan.Target{Driver: Driver, Object: path.Dir(file), Knob: path.Base(file)}
	if path.Clean(file) != file {
		return plan.Target{}, fmt.Errorf("%s: %w", file, ErrOutside)
	}
	_, _, err := split(t)
	return t, err
}

// The trees that targets are in. In /sys two more are mounted: debugfs, and control
// groups, which have a driver of their own.
const (
	sysctls = "/proc/sys"
	sysfs   = "/sys"
	debugfs = "/sys/kernel/debug"
	cgroups = "/sys/fs/cgroup"
)

// interfaces has a directory for each network interface.
const interfaces = "/sys/class/net"

// networkInterface returns the interface that a sysctl is for, "" where it is for none, as
// those for all interfaces and for the ones to come.
func networkInterface(t plan.Target) string {
	below, isNetwork := strings.CutPrefix(t.Object, sysctls+"/net/")
	parts := strings.Split(below, "/") // protocol, group of settings, interface
	if !isNetwork || len(parts) != 3 || parts[1] != "conf" && parts[1] != "neigh" || parts[2] == "all" || parts[2] == "default" {
		return ""
	}
	return parts[2]
}

// split returns the tree of a target, and its directory relative to that.
func split(t plan.Target) (tree, dir string, err error) {
	named := t.Knob != "" && path.Join(t.Object, path.Base(t.Knob)) == t.Object+"/"+t.Knob
	for _, tree := range []string{sysctls, debugfs, sysfs} {
		if named && within(t.Object, tree) && !within(t.Object, cgroups) {
			return tree, strings.TrimPrefix(t.Object, tree), nil
		}
	}
	return "", "", fmt.Errorf("%s: %w", t, ErrOutside)
}

// within reports whether a clean path is a directory or lies below it.
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

// chosen returns the word in brackets, which are parentheses in debugfs.
func chosen(tree, word string) (string, bool) {
	left, right := "[", "]"
	if tree == debugfs {
		left, right = "(", ")"
	}
	inner, opened := strings.CutPrefix(word, left)
	inner, closed := strings.CutSuffix(inner, right)
	return inner, opened && closed && inner != ""
}

// same compares two values however they are spaced, masks however many zeros they begin
// with, and slices as exactly as the kernel keeps them.
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

// part says whether a pool of huge pages stands between two numbers of pages: the kernel takes what it has
// memory for.
func part(t plan.Target, v, from, to plan.Value) bool {
	return knob.OnTheWay(t.Object+"/"+t.Knob, string(v), string(from), string(to))
}

// factors are what the kernel multiplies a slice with: 1 + log2 of the online CPUs, of which
// it counts 8 (get_update_sysctl_factor in kernel/sched/fair.c).
const factors = 4

// rescaled says whether a slice is what the kernel makes of a recorded one when CPUs come or
// go: it keeps the slice for one CPU, and multiplies that anew.
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

// scaled says whether v is recorded * now / then, as far as integers are: the kernel divides
// before it multiplies.
func scaled(v, recorded plan.Value, now, then int64) bool {
	is, errIs := strconv.ParseInt(string(v), 10, 64)
	was, errWas := strconv.ParseInt(string(recorded), 10, 64)
	if errIs != nil || errWas != nil || was > math.MaxInt64/factors {
		return false
	}
	exact := was * now / then
	return is <= exact+factors && is >= exact-factors
}

// place is what the catalogue of knobs says of a file.
func place(t plan.Target) knob.Place {
	_, at, _ := knob.At(t.Object + "/" + t.Knob) // of others there is nothing to know
	return at
}
