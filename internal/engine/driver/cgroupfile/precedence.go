package cgroupfile

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"github.com/berth-project/berth/internal/engine/apply"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/cgroup"
)

// mostWrites is the number of writes from idle to a weight.
const mostWrites = 2

// writePrecedence writes a precedence, to the files or through systemd, and reads it back. Between its two writes the
// group has the default weight: see leftByIdle.
func (s *groups) writePrecedence(g *cgroup.Group, c plan.Change) (cgroup.Value, error) {
	if unit := Unit(c.Target); unit != "" {
		return s.askPrecedence(g, c, unit)
	}
	return s.writeWeight(g, c)
}

// writeWeight writes a precedence to the files.
func (s *groups) writeWeight(g *cgroup.Group, c plan.Change) (cgroup.Value, error) {
	wanted, stands := cgroup.Value(c.Value), cgroup.Value(c.From)
	for range mostWrites {
		err := put(g, cgroup.KnobPrecedence, wanted)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return "", fmt.Errorf("%w: %w", apply.ErrRefused, err)
		case errors.Is(err, syscall.EINVAL), errors.Is(err, syscall.ERANGE):
			return "", fmt.Errorf("%w: %w", apply.ErrRefused, err)
		case err != nil:
			return "", err
		}
		s.call.Written(c.Target)
		if stands, err = g.Read(cgroup.KnobPrecedence); err != nil {
			return "", err
		}
		if cgroup.Same(cgroup.KnobPrecedence, stands, wanted) {
			return stands, nil
		}
	}
	return stands, fmt.Errorf("wrote %s, the kernel has %s: %w", wanted, stands, apply.ErrNotEffective)
}

// askPrecedence has systemd write the precedence. Otherwise systemd would write its own weight at the next
// daemon-reload, and end idle with it. A systemd without idle units does neither. Then the driver writes the files,
// and it also does so if the group is still idle after systemd was asked for a weight.
func (s *groups) askPrecedence(g *cgroup.Group, c plan.Change, unit string) (cgroup.Value, error) {
	weights, ok := s.units.(Weights)
	if !ok {
		return "", fmt.Errorf("unit %s: %w", unit, ErrNoUnits)
	}
	err := weights.SetWeight(unit, cgroup.Value(c.Value))
	if errors.Is(err, ErrNoIdle) {
		return s.writeWeight(g, c)
	}
	if err != nil {
		return "", err
	}
	s.call.Written(c.Target)
	s.drop(c.Object) // systemd may have switched the controller, and its files with it
	if g, err = s.get(c.Object); err != nil {
		return "", err
	}
	stands, err := read(g, c.Target)
	if err == nil && stands == cgroup.Idle && c.Value != plan.Value(cgroup.Idle) {
		return s.writeWeight(g, c)
	}
	if err == nil && !cgroup.Same(cgroup.KnobPrecedence, stands, cgroup.Value(c.Value)) {
		err = fmt.Errorf("asked systemd for %s, the kernel has %s: %w", c.Value, stands, apply.ErrNotEffective)
	}
	return stands, err
}
