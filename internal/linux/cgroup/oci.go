package cgroup

import (
	"fmt"
	"path"
	"strings"
)

// scopeSuffix ends the name of the unit that a runtime makes for one container.
const scopeSuffix = ".scope"

// RuntimePath returns the group that a container runtime makes for the cgroupsPath of an OCI specification, relative to
// each hierarchy's root. With the cgroupfs driver, cgroupsPath is a path from the root. With the systemd driver it is
// "slice:prefix:name", meaning prefix-name.scope in that slice. The slice's name determines its place; an empty slice
// means system.slice. The error is ErrBadPath.
func RuntimePath(cgroupsPath string) (string, error) {
	p := strings.TrimPrefix(path.Clean("/"+cgroupsPath), "/")
	if parts := strings.Split(cgroupsPath, ":"); len(parts) == 3 && !strings.Contains(cgroupsPath, "/") {
		slice, err := slicePath(parts[0])
		if err != nil {
			return "", err
		}
		p = path.Join(slice, scopeOf(parts[1], parts[2]))
	}
	if p == "" {
		return "", fmt.Errorf("%w: cgroupsPath %q names no group", ErrBadPath, cgroupsPath)
	}
	return p, CheckPath(p)
}

// ParentPath returns the group of a pod for the parent that the kubelet gave to the runtime. The parent is a path from
// the root. If its last element is a slice, the result is the place where systemd puts the slice. The root is "". The
// error is ErrBadPath.
func ParentPath(cgroupParent string) (string, error) {
	if base := path.Base(cgroupParent); strings.HasSuffix(base, sliceSuffix) {
		return slicePath(base)
	}
	p := strings.TrimPrefix(path.Clean("/"+cgroupParent), "/")
	return p, CheckPath(p)
}

// slicePath returns the path of a slice by its name: a-b.slice is in a.slice. "-.slice" is the root, "", and an empty
// name is system.slice. The error is ErrBadPath.
func slicePath(slice string) (string, error) {
	switch slice {
	case "":
		return systemSlice, nil
	case "-" + sliceSuffix:
		return "", nil
	}
	stem, ok := strings.CutSuffix(slice, sliceSuffix)
	if !ok || stem == "" || strings.Contains(stem, "/") || strings.Contains("-"+stem+"-", "--") {
		return "", fmt.Errorf("%w: slice %q: must be a name like kubepods-burstable.slice", ErrBadPath, slice)
	}
	p := path.Join(sliceWay(slice)...)
	return p, CheckPath(p)
}

// scopeOf returns the unit name of a container.
func scopeOf(prefix, name string) string {
	switch {
	case strings.HasSuffix(name, sliceSuffix):
		return name
	case prefix == "":
		return name + scopeSuffix
	}
	return prefix + "-" + name + scopeSuffix
}

// RuntimeGroup returns the group of a container as RuntimePath does, corrected by the container's first process if it
// is known (pid > 0). A runtime in its own cgroup namespace does not see the groups above it, and reports a path that
// begins too low. A process in an unrelated group, or no process, changes nothing: the kernel may have reused the pid.
// The error is ErrBadPath.
func (h *Host) RuntimeGroup(cgroupsPath string, pid int) (string, error) {
	said, err := RuntimePath(cgroupsPath)
	if err != nil || pid <= 0 {
		return said, err
	}
	seen, err := h.PathOf(pid)
	if err != nil {
		return said, nil //nolint:nilerr // no process to learn from
	}
	return reconcile(said, seen), nil
}

// reconcile returns the group that said names, as seen from here. The process may be in a group below it. Groups may
// also exist above the start of said, or above the start of seen.
func reconcile(said, seen string) string {
	if seen != "" && strings.HasSuffix(said, "/"+seen) {
		return seen
	}
	if i := strings.Index("/"+seen+"/", "/"+said+"/"); i > 0 {
		return seen[:i+len(said)]
	}
	return said
}
