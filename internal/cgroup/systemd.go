package cgroup

import (
	"errors"
	"fmt"
	"path"
	"strings"
)

// errFound ends a walk.
var errFound = errors.New("found")

// UnitPath returns the path of a systemd unit's group, by name: systemd calls
// a unit's group after the unit, and puts "_" before a name that could be
// taken for a kernel file. The hierarchy searched is that of the cpu
// controller. The errors are ErrNoGroup and, when for example several users'
// managers run a unit of that name, ErrAmbiguous; then the group's path has to
// be given instead.
func (h *Host) UnitPath(unit string) (string, error) {
	if unit == "" || strings.ContainsAny(unit, "/\x00\n") || !strings.Contains(unit, ".") {
		return "", fmt.Errorf("%w: unit %q: must be a name with its type, like redis-server.service", ErrBadPath, unit)
	}
	hier, err := h.Hierarchy(CPU)
	if err != nil {
		return "", fmt.Errorf("unit %s: %w", unit, err)
	}
	var found []string
	err = h.walk(hier.Mount, func(at string, _ int) error {
		if name := path.Base(at); name == unit || name == "_"+unit {
			found = append(found, strings.TrimPrefix(at, hier.Mount+"/"))
		}
		if len(found) > 1 {
			return errFound
		}
		return nil
	})
	switch {
	case len(found) > 1:
		return "", fmt.Errorf("%w: unit %s is %q and %q", ErrAmbiguous, unit, found[0], found[1])
	case err != nil:
		return "", fmt.Errorf("unit %s: %w", unit, err)
	case len(found) == 0:
		return "", fmt.Errorf("%w of unit %s below %s", ErrNoGroup, unit, hier.Mount)
	}
	return found[0], nil
}
