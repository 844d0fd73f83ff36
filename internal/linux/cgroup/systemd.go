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

// UnitPath returns the path of a systemd unit's group in the hierarchy of the cpu controller. systemd names the group
// after the unit, and prefixes a name that resembles a kernel file with "_".
//
// The name of a slice determines its place: a-b.slice is in a.slice. UnitPath searches system.slice for any other unit.
// For an instance of a template such as x@1.service it also searches system-x.slice. Then it searches all slices.
//
// It searches nowhere else: whoever runs in a service or scope may make groups of any name there, and such a group must
// not pass for the unit. Units of a user's manager or in a container must therefore be given by path. The errors are
// ErrBadPath, ErrNoGroup, and ErrAmbiguous if system.slice lacks the unit and several slices have it.
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

// usualPath searches the places where systemd puts a unit by default. It returns "" if no group is there.
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

// usualWays returns the default places of a unit, each as names from the root down.
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

// sliceWay returns the slices from the root down to the given slice: a.slice, a-b.slice.
func sliceWay(slice string) []string {
	var way []string
	for i := 1; i < len(slice)-len(sliceSuffix); i++ {
		if slice[i] == '-' {
			way = append(way, slice[:i]+sliceSuffix)
		}
	}
	return append(way, slice)
}

// step returns the path of the child group of at with this name, escaped or not. It returns "" if there is no such
// group.
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

// pathInSlices searches all slices for a unit, including the root, which is itself a slice. It returns "" if no slice
// has the unit.
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

// inSlice reports whether the group name can be a slice within the slice at. The name of a slice extends the name of
// its parent, which also bounds the depth of slices.
func inSlice(at, name string) bool {
	parent := strings.TrimSuffix(strings.TrimPrefix(path.Base(at), "_"), sliceSuffix)
	stem, ok := strings.CutSuffix(strings.TrimPrefix(name, "_"), sliceSuffix)
	if at == "" {
		return ok && !strings.Contains(stem, "-")
	}
	rest, below := strings.CutPrefix(stem, parent+"-")
	return ok && below && !strings.Contains(rest, "-")
}
