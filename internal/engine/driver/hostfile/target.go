package hostfile

import (
	"fmt"
	"path"
	"strings"

	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/internal/linux/knob"
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
	named := t.Knob != "" && path.Join(t.Object, path.Base(t.Knob)) == file(t)
	for _, tree := range []string{sysctls, debugfs, sysfs} {
		if named && within(t.Object, tree) && !within(t.Object, cgroups) {
			return tree, strings.TrimPrefix(t.Object, tree), nil
		}
	}
	return "", "", fmt.Errorf("%s: %w", t, ErrOutside)
}

// within reports whether a clean path is dir or lies below it.
func within(name, dir string) bool { return name == dir || strings.HasPrefix(name, dir+"/") }

// file returns the path of a target.
func file(t plan.Target) string { return t.Object + "/" + t.Knob }

// parse returns the value in the text of a file.
func parse(t plan.Target, text string) plan.Value { return plan.Value(knob.Content(file(t), text)) }

// same compares two values as the catalogue of knobs does.
func same(t plan.Target, a, b plan.Value) bool { return knob.Same(file(t), string(a), string(b)) }

// part reports whether v may be the number of huge pages after a partial change: the kernel allocates as many pages as
// it has memory for.
func part(t plan.Target, v, from, to plan.Value) bool {
	return knob.OnTheWay(file(t), string(v), string(from), string(to))
}

// rescaled reports whether v is a recorded slice that the kernel scaled when CPUs came or went.
func rescaled(t plan.Target, v, recorded plan.Value) bool {
	return knob.IsRescaled(file(t), string(v), string(recorded))
}

// File returns the file that shows the requested value of a target: the target's own, or the file beside it if its own
// shows only a part of the request.
func File(root *hostfs.Root, t plan.Target) string {
	if beside := place(t).Now; beside != "" {
		name := path.Join(t.Object, beside)
		if _, err := root.ID(name); err == nil {
			return name
		}
	}
	return file(t)
}

// place returns what the catalogue of knobs says about a file.
func place(t plan.Target) knob.Place {
	_, at, _ := knob.At(file(t)) // the zero Place if the catalogue does not have it
	return at
}
