package apply

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"

	"github.com/berth-project/berth/internal/cgroup"
	"github.com/berth-project/berth/internal/plan"
)

// read returns the value of a knob. A unit's group may lack the controller until
// systemd is asked for a list: then the group inherits.
func read(g *cgroup.Group, k cgroup.Knob, unit string) (cgroup.Value, error) {
	v, err := g.Read(k)
	if unit != "" && errors.Is(err, cgroup.ErrNoController) {
		return cgroup.Inherit, nil
	}
	return v, err
}

// writeList writes CPUs or memory nodes, to the file or through systemd, and reads
// back both what stands and what the kernel makes of it: v2 takes any list and
// silently uses another one where it has nothing in common with the group above.
func (a *Applier) writeList(g *cgroup.Group, c plan.Change, written, verified Step) (cgroup.Value, bool, error) {
	inherits := c.Value == cgroup.Inherit
	err := a.NoteThreads(g, c.Target)
	if err != nil && written == StepWritten && !a.isWayBack(c) {
		return c.From, false, err
	}
	if c, err = a.putList(g, c); err != nil {
		return c.From, false, a.classify(c.Target, explainList(g, c, err))
	}
	a.step(written, c.Target)
	if c.Unit != "" { // systemd may have switched the controller, and its files with it
		again, err := a.host.Group(c.Group)
		if err != nil {
			return "", true, a.classify(c.Target, err)
		}
		defer again.Close()
		g = again
	}
	a.RestoreThreads(g, c.Target)
	stands, err := read(g, c.Knob, c.Unit)
	if err != nil {
		return "", true, a.classify(c.Target, err)
	}
	a.step(verified, c.Target)
	if !cgroup.Same(c.Knob, stands, c.Value) && (!inherits || stands != cgroup.Inherit) {
		return stands, true, fmt.Errorf("wrote %s, the kernel has %s: %w", c.Value, stands, ErrNotEffective)
	}
	effective, ok, err := g.InEffect(c.Knob, stands)
	switch {
	case err != nil:
		return stands, true, a.classify(c.Target, err)
	case !ok:
		return stands, true, fmt.Errorf("wrote %s, the kernel uses %s%s: %w",
			c.Value, effective, because(g.Obstacles(c.Knob, c.Value)), ErrNotEffective)
	}
	return stands, true, nil
}

// putList returns the change that it made: to a group with processes that is to inherit
// again the kernel does not give that back, but what is as good.
func (a *Applier) putList(g *cgroup.Group, c plan.Change) (plan.Change, error) {
	if c.Unit != "" {
		if a.units == nil {
			return c, fmt.Errorf("unit %s: %w", c.Unit, ErrNoUnits)
		}
		if err := a.units.SetList(c.Unit, c.Knob, c.Value); err != nil || c.Value != cgroup.Inherit {
			return c, err
		}
		// systemd forgets the list and leaves it in the file, which is nobody's now.
	}
	err := put(g, c.Knob, c.Value)
	if c.Value == cgroup.Inherit && errors.Is(err, syscall.ENOSPC) {
		c.Value = g.Unlimited(c.Knob)
		err = put(g, c.Knob, c.Value)
	}
	if c.Unit != "" && errors.Is(err, fs.ErrNotExist) { // it took the controller away, and the file with it
		c.Value, err = cgroup.Inherit, nil
	}
	return c, err
}

// explainList adds what is in the way to an answer of the kernel that depends on
// the value. Any other error comes back as it is.
func explainList(g *cgroup.Group, c plan.Change, err error) error {
	for _, class := range []error{syscall.EACCES, syscall.EBUSY, syscall.ENOSPC, syscall.EINVAL, syscall.ERANGE} {
		if errors.Is(err, class) {
			return fmt.Errorf("%w%s: %w", ErrRefused, because(g.Obstacles(c.Knob, c.Value)), err)
		}
	}
	return err
}

func because(obstacles []string) string {
	if len(obstacles) == 0 {
		return ""
	}
	return ", in the way: " + strings.Join(obstacles, "; ")
}
