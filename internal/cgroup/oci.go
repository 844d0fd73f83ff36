package cgroup

import (
	"fmt"
	"path"
	"strings"
)

// scopeSuffix ends the unit that a runtime makes for one container.
const scopeSuffix = ".scope"

// RuntimePath returns the group that a container runtime makes for the
// cgroupsPath of an OCI specification, relative to each hierarchy's root.
// With the cgroupfs driver that is a path from the root. With the systemd
// driver it is "slice:prefix:name": the scope prefix-name.scope in the slice,
// whose own name says where it is; no slice means system.slice. The error is
// ErrBadPath.
func RuntimePath(cgroupsPath string) (string, error) {
	p := strings.TrimPrefix(path.Clean("/"+cgroupsPath), "/")
	if parts := strings.Split(cgroupsPath, ":"); len(parts) == 3 && !strings.Contains(cgroupsPath, "/") {
		slice, err := SlicePath(parts[0])
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

// ParentPath returns the group of a pod for the parent that the kubelet gave
// to the runtime: a path from the root, or, when its last element is a slice,
// where systemd puts that slice. The root is "". The error is ErrBadPath.
func ParentPath(cgroupParent string) (string, error) {
	if base := path.Base(cgroupParent); strings.HasSuffix(base, sliceSuffix) {
		return SlicePath(base)
	}
	p := strings.TrimPrefix(path.Clean("/"+cgroupParent), "/")
	return p, CheckPath(p)
}

// SlicePath returns the path of a slice by its name: a-b.slice is in a.slice.
// "-.slice" is the root, "", and no name is system.slice. The error is
// ErrBadPath.
func SlicePath(slice string) (string, error) {
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

// scopeOf returns the unit of a container.
func scopeOf(prefix, name string) string {
	switch {
	case strings.HasSuffix(name, sliceSuffix):
		return name
	case prefix == "":
		return name + scopeSuffix
	}
	return prefix + "-" + name + scopeSuffix
}

// RuntimeGroup returns the group of a container as RuntimePath does, and
// corrects it by its first process where one is known (pid > 0): a runtime in
// a cgroup namespace of its own does not see what is above it, and says a
// path that begins too low. A process elsewhere, or none, changes nothing:
// its number may belong to another one by now. The error is ErrBadPath.
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

// reconcile returns the group that said names, as seen from here: processes
// may be in groups below it, and there may be groups above what said begins
// with, or above what is seen.
func reconcile(said, seen string) string {
	if seen != "" && strings.HasSuffix(said, "/"+seen) {
		return seen
	}
	if i := strings.Index("/"+seen+"/", "/"+said+"/"); i > 0 {
		return seen[:i+len(said)]
	}
	return said
}
