package cgroupfile

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"

	"github.com/berth-project/berth/internal/apply"
	"github.com/berth-project/berth/internal/cgroup"
	"github.com/berth-project/berth/internal/pages"
	"github.com/berth-project/berth/internal/plan"
)

// writeList writes CPUs or memory nodes, to the file or through systemd, and reads
// back both what stands and what the kernel makes of it: v2 takes any list and
// silently uses another one where it has nothing in common with the group above.
func (s *groups) writeList(g *cgroup.Group, c plan.Change) (cgroup.Value, error) {
	k, wanted := Knob(c.Target), cgroup.Value(c.Value)
	written, err := s.putList(g, c)
	if err != nil {
		return "", explainList(g, k, written, err)
	}
	s.call.Written(c.Target)
	if c.Driver == UnitDriver { // systemd may have switched the controller, and its files with it
		again, err := s.host.Group(c.Object)
		if err != nil {
			return "", err
		}
		defer again.Close()
		g = again
	}
	if movesThreads(c.Target) {
		s.giveBack(g, c.Target)
	}
	stands, err := read(g, c.Target)
	if err != nil {
		return "", err
	}
	if !cgroup.Same(k, stands, written) && (wanted != cgroup.Inherit || stands != cgroup.Inherit) {
		return stands, fmt.Errorf("wrote %s, the kernel has %s: %w", written, stands, apply.ErrNotEffective)
	}
	effective, ok, err := g.InEffect(k, stands)
	switch {
	case err != nil:
		return stands, err
	case !ok:
		return stands, fmt.Errorf("wrote %s, the kernel uses %s%s: %w",
			written, effective, because(g.Obstacles(k, written)), apply.ErrNotEffective)
	}
	return stands, nil
}

// putList returns the value that it wrote: to a group with processes that is to inherit
// again the kernel does not give that back, but what is as good.
func (s *groups) putList(g *cgroup.Group, c plan.Change) (cgroup.Value, error) {
	k, unit, v := Knob(c.Target), Unit(c.Target), cgroup.Value(c.Value)
	if err := s.mayPut(g, k, v); err != nil {
		return v, err
	}
	if unit != "" {
		if s.units == nil {
			return v, fmt.Errorf("unit %s: %w", unit, ErrNoUnits)
		}
		if err := s.setList(unit, k, v); err != nil || v != cgroup.Inherit {
			return v, err
		}
		// systemd forgets the list and leaves it in the file, which is no writer's now.
	}
	if s.aside.takes(k) {
		if all := g.Unlimited(k); v == cgroup.Inherit && all != v && cgroup.Populated(g) && cgroup.Same(k, cgroup.Value(c.From), all) {
			return all, nil // it stands: beside the caller it would be written again at each look
		}
		return v, s.aside.put(s.host, c.ID, c.Object, v)
	}
	v, err := putOrAll(g, k, v)
	if unit != "" && errors.Is(err, fs.ErrNotExist) { // it took the controller away, and the file with it
		v, err = cgroup.Inherit, nil
	}
	return v, err
}

// setList has systemd write a list. One that did not answer before is not asked again in the same call: it may be one
// that hangs.
func (s *groups) setList(unit string, k cgroup.Knob, v cgroup.Value) error {
	if s.unreached != nil {
		return s.unreached
	}
	err := s.units.SetList(unit, k, v)
	s.noteUnreached(err)
	return err
}

// mayPut says what is in the way of a list, nil for nothing: for CPUs, that the group has become a
// partition meanwhile; for memory nodes, what the kernel would do with pages.
func (s *groups) mayPut(g *cgroup.Group, k cgroup.Knob, v cgroup.Value) error {
	if k == cgroup.KnobCPUs {
		return NotAPartition(g)
	}
	if err := s.aside.mayChange(s.host, g, v); err != nil {
		return err
	}
	return mayMove(s.host, g, v)
}

// mayMove is pages.ErrRealTime or pages.ErrStuck where a write of memory nodes may never end. Where it changes what the
// group has, the kernel takes the lock of the memory map of each process in it and below, on both versions, for more
// nodes too, while whoever else changes or joins a cpuset waits (mpol_rebind_mm in mm/mempolicy.c). And it moves pages,
// even if the group gets more nodes than before; on cgroup v1 only where cpuset.memory_migrate says so.
func mayMove(host knownHost, g *cgroup.Group, v cgroup.Value) error {
	has, same, err := g.InEffect(cgroup.KnobMems, v)
	if err != nil {
		return fmt.Errorf("memory nodes of %q: %w", g.Path(), err)
	}
	if same {
		return nil
	}
	if !cgroup.KeepsPages(g) {
		err = pages.MayEnd(host.Root())
	}
	if err == nil {
		err = answer(host, g)
	}
	if err != nil {
		return fmt.Errorf("memory nodes of %q stay %s: %w", g.Path(), has, err)
	}
	return nil
}

// answer is pages.ErrStuck where a process of a group or below it does not answer. On cgroup v1 the processes are those
// of the hierarchy of cpusets.
func answer(host knownHost, g *cgroup.Group) error {
	all, _, err := cgroup.ProcessesOf(g, cgroup.CPUSet) // Those of other pid namespaces cannot be asked.
	if err != nil {
		return err
	}
	return pages.AllAnswer(host.kernel, all)
}

// putOrAll writes a value, or all CPUs or memory nodes where the kernel does not let the group inherit.
func putOrAll(g *cgroup.Group, k cgroup.Knob, v cgroup.Value) (cgroup.Value, error) {
	err := put(g, k, v)
	if v == cgroup.Inherit && errors.Is(err, syscall.ENOSPC) {
		if v = g.Unlimited(k); k == cgroup.KnobCPUs {
			v = cgroup.Spare(g, v)
		}
		err = put(g, k, v)
	}
	return v, err
}

// explainList adds what is in the way to an answer of the kernel that depends on
// the value. Any other error comes back as it is.
func explainList(g *cgroup.Group, k cgroup.Knob, v cgroup.Value, err error) error {
	if errors.Is(err, apply.ErrDeferred) {
		return err
	}
	for _, class := range []error{syscall.EACCES, syscall.EBUSY, syscall.ENOSPC, syscall.EINVAL, syscall.ERANGE} {
		if errors.Is(err, class) {
			return fmt.Errorf("%w%s: %w", apply.ErrRefused, because(g.Obstacles(k, v)), err)
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
