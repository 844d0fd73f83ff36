package tuner

import (
	"errors"
	"fmt"
	"strings"

	"github.com/berth-project/berth/internal/capability/tune"
	"github.com/berth-project/berth/internal/engine/apply"
	"github.com/berth-project/berth/internal/engine/driver"
	"github.com/berth-project/berth/internal/engine/driver/cgroupfile"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// waits reports whether an apply after a boot goes on without a setting that returned this error.
func waits(err error) bool {
	return errors.Is(err, ErrMems) || errors.Is(err, ErrHeld) || errors.Is(err, ErrBegin) || errors.Is(err, cgroupfile.ErrForeign)
}

// mayBegin returns ErrBegin if a unit could not start with its list, which systemd gives to each start. It also asks
// about a list that the unit has already.
func mayBegin(a *apply.Applier, c *plan.Change) error {
	if !driver.IsListOfUnit(c.Target) {
		return nil
	}
	err := a.MayBegin(c.Target, c.Value)
	if errors.Is(err, apply.ErrRefused) {
		return fmt.Errorf("%w: %w", ErrBegin, err)
	}
	return err
}

// Begins returns the plan with the lists marked with which a unit could not start, and the slices of other programs:
// Apply would refuse both. It adds to other lists which part of them a unit uses that asks for CPUs or memory nodes
// itself. After an error some settings may be unmarked.
func (h Host) Begins(p tune.Plan) (tune.Plan, error) {
	askers, ok := h.Units.(cgroupfile.Askers)
	if !ok {
		return p, nil
	}
	systemd, _ := h.Units.(cgroupfile.Slices)
	var unread error
	p = p.Held(func(s *tune.Setting) (why string) {
		at, _, err := h.target(*s)
		switch {
		case err != nil || unread != nil: // of another kind, or not there, or systemd does not answer
			return ""
		case driver.IsSlice(at):
			if _, err = cgroupfile.StateOf(systemd, at.Object); errors.Is(err, cgroupfile.ErrForeign) {
				return err.Error()
			}
		case driver.IsListOfUnit(at):
			why, err = begins(s, at, askers)
		}
		if err != nil {
			unread = fmt.Errorf("%s: %w", s.Name(), err)
		}
		return why
	})
	return p, unread
}

// begins returns why a unit could not start with a list, or adds to the remark which part of the list it uses.
func begins(s *tune.Setting, at plan.Target, askers cgroupfile.Askers) (why string, err error) {
	k := cgroupfile.Knob(at)
	list, err := cpuset.Parse(s.Write)
	if err != nil {
		return "", err
	}
	asks, err := askers.Asked(at.Object, k)
	if err != nil {
		return "", err
	}
	if err := cgroupfile.CanBegin(cgroupfile.Unit(at), k, asks, list); err != nil {
		return fmt.Sprintf("%v: %v", ErrBegin, err), nil
	}
	if used := asks.Intersect(list); !used.IsEmpty() && used != list {
		note := fmt.Sprintf("once it starts again, it uses only %s of these: it has %s=%s itself", used, cgroupfile.Asks(k), asks)
		s.Why = strings.TrimPrefix(s.Why+"; "+note, "; ")
	}
	return "", nil
}
