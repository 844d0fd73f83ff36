package cgroup

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
)

const (
	sliceSuffix = ".slice"
	systemSlice = "system.slice"
)

// UnitPath returns the path of a systemd unit's group in the hierarchy of the
// cpu controller, by name: systemd calls the group after the unit, and puts
// "_" before a name that could be taken for a kernel file.
//
// A slice's name says where it is: a-b.slice is in a.slice. Any other unit is
// looked for in system.slice, for an instance of a template such as x@1.service
// also in its system-x.slice, and then in all slices. Nowhere else: what is
// below a service or scope belongs to whoever runs in it, who may make groups
// of any name there and must not become the unit of that name. So the units of
// a user's manager and those in a container have to be given by path. The
// errors are ErrBadPath, ErrNoGroup and, when several slices have a unit of
// that name and system.slice has none, ErrAmbiguous.
func (h *Host) UnitPath(unit string) (string, error) {
	if err := CheckPath(unit); err != nil || strings.Contains(unit, "/") || !strings.Contains(unit, ".") {
		return "", fmt.Errorf("%w: unit %q: must be a name with its type, like redis-server.service", ErrBadPath, unit)
	}
	hier, err := h.Hierarchy(CPU)
	if err != nil {
		return "", fmt.Errorf("unit %s: %w", unit, err)
	}
	at, err := h.usualPath(hier.Mount, unit)
	if err == nil && at == "" && !strings.HasSuffix(unit, sliceSuffix) {
		at, err = h.pathInSlices(hier.Mount, unit)
	}
	switch {
	case err != nil:
		return "", fmt.Errorf("unit %s: %w", unit, err)
	case at == "":
		return "", fmt.Errorf("%w of unit %s in the slices below %s; a unit of a user's or a container's systemd has to be given by its cgroup path",
			ErrNoGroup, unit, hier.Mount)
	}
	return at, nil
}

// usualPath looks where systemd puts a unit that is not configured to be
// elsewhere. "" is no such group.
func (h *Host) usualPath(mount, unit string) (string, error) {
	for _, way := range usualWays(unit) {
		at := ""
		for _, name := range way {
			found, err := h.step(mount, at, name)
			if err != nil {
				return "", err
			}
			if at = found; at == "" {
				break
			}
		}
		if at != "" {
			return at, nil
		}
	}
	return "", nil
}

// usualWays returns the places of a unit, each as names from the root down.
func usualWays(unit string) [][]string {
	if strings.HasSuffix(unit, sliceSuffix) {
		return [][]string{sliceWay(unit)}
	}
	ways := [][]string{{systemSlice, unit}}
	if template, _, ok := strings.Cut(unit, "@"); ok && template != "" {
		slice := "system-" + strings.ReplaceAll(template, "-", `\x2d`) + sliceSuffix
		ways = append(ways, []string{systemSlice, slice, unit})
	}
	return ways
}

// sliceWay returns the slices from the root down to one: a.slice, a-b.slice.
func sliceWay(slice string) []string {
	var way []string
	for i := 1; i < len(slice)-len(sliceSuffix); i++ {
		if slice[i] == '-' {
			way = append(way, slice[:i]+sliceSuffix)
		}
	}
	return append(way, slice)
}

// step returns the path of the group of that name, escaped or not, in the
// group at. "" is no such group.
func (h *Host) step(mount, at, name string) (string, error) {
	for _, name := range []string{name, "_" + name} {
		at := path.Join(at, name)
		info, err := fs.Stat(h.root.FS(), strings.TrimLeft(path.Join(mount, at), "/"))
		switch {
		case vanished(err):
		case err != nil:
			return "", fmt.Errorf("group of a unit: %w", err)
		case info.IsDir(): // kernel files have names with a dot too
			return at, nil
		}
	}
	return "", nil
}

// pathInSlices looks for a unit in all slices and in the root, which is itself
// one. "" is no such group.
func (h *Host) pathInSlices(mount, unit string) (string, error) {
	var found []string
	for todo := []string{""}; len(todo) > 0; todo = todo[1:] {
		entries, err := h.root.ReadDir(mount + "/" + todo[0])
		if vanished(err) {
			continue
		}
		if err != nil {
			return "", fmt.Errorf("list slice: %w", err)
		}
		for _, e := range entries {
			name := e.Name()
			switch {
			case !e.IsDir():
			case name == unit || name == "_"+unit:
				found = append(found, path.Join(todo[0], name))
			case inSlice(todo[0], name):
				todo = append(todo, path.Join(todo[0], name))
			}
		}
	}
	if len(found) > 1 {
		slices.Sort(found)
		return "", fmt.Errorf("%w: it is %q and %q", ErrAmbiguous, found[0], found[1])
	}
	return strings.Join(found, ""), nil
}

// inSlice says whether the group name can be a slice in the slice at: a
// slice's name goes on from that of the one it is in. That also bounds how
// deep slices go.
func inSlice(at, name string) bool {
	parent := strings.TrimSuffix(strings.TrimPrefix(path.Base(at), "_"), sliceSuffix)
	stem, ok := strings.CutSuffix(strings.TrimPrefix(name, "_"), sliceSuffix)
	if at == "" {
		return ok && !strings.Contains(stem, "-")
	}
	rest, below := strings.CutPrefix(stem, parent+"-")
	return ok && below && !strings.Contains(rest, "-")
}
