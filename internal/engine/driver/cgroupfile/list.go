package cgroupfile

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"

	"github.com/berth-project/berth/internal/engine/apply"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/linux/pages"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// writeList writes CPUs or memory nodes, to the file or through systemd. It reads back the file and the CPUs or nodes
// in effect: v2 accepts any list, and silently uses another one if the list and the group above have nothing in
// common.
func (s *groups) writeList(g *cgroup.Group, c plan.Change) (cgroup.Value, error) {
	k, wanted := Knob(c.Target), cgroup.Value(c.Value)
	var had cpuset.Set
	if s.aside == nil { // with an Aside the group has little on other nodes, and the caller would see the value in between
		had = nodesBefore(g, c)
	}
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
	if err := (rest{s.host, s.call, g, c, had}).move(written); err != nil {
		return "", err
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

// putList returns the value that it wrote. If a group with processes has to inherit again, the kernel may refuse that,
// and putList writes an equivalent list.
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
		// systemd forgets the list but leaves it in the file, which belongs to no writer now.
	}
	if s.aside.takes(k) {
		if all := g.Unlimited(k); v == cgroup.Inherit && all != v && cgroup.Populated(g) && cgroup.Same(k, cgroup.Value(c.From), all) {
			return all, nil // in effect: Aside would write it again at each check
		}
		return v, s.aside.put(s.host, c.ID, c.Object, v)
	}
	v, err := putOrAll(g, k, v)
	if unit != "" && errors.Is(err, fs.ErrNotExist) { // systemd removed the controller, and the file with it
		v, err = cgroup.Inherit, nil
	}
	return v, err
}

// setList has systemd write a list. If systemd did not answer before in this call, setList does not ask again: systemd
// may hang.
func (s *groups) setList(unit string, k cgroup.Knob, v cgroup.Value) error {
	if s.unreached != nil {
		return s.unreached
	}
	err := s.units.SetList(unit, k, v)
	s.noteUnreached(err)
	return err
}

// mayPut returns the error that prevents the write of a list, or nil. For CPUs the group may have become a partition.
// For memory nodes the kernel might move pages at a bad time, or forever (mayChange, mayMove).
func (s *groups) mayPut(g *cgroup.Group, k cgroup.Knob, v cgroup.Value) error {
	if k == cgroup.KnobCPUs {
		return NotAPartition(g)
	}
	if err := s.aside.mayChange(s.host, g, v); err != nil {
		return err
	}
	return mayMove(s.host, g, v)
}

// mayMove returns pages.ErrRealTime or pages.ErrStuck if a write of memory nodes may never end. If the write changes
// the nodes in effect, the kernel takes the lock of the memory map of each process in the group and below
// (mpol_rebind_mm in mm/mempolicy.c). It does so on both versions, for additional nodes too, while every other program
// that changes or joins a cpuset waits. It also moves pages, even if the group gets more nodes than before; on cgroup
// v1 only if cpuset.memory_migrate is set.
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

// answer returns pages.ErrStuck if a process of the group or below does not answer. On cgroup v1 the processes are
// those in the hierarchy of cpusets.
func answer(host knownHost, g *cgroup.Group) error {
	all, _, err := cgroup.ProcessesOf(g, cgroup.CPUSet) // Processes of other pid namespaces cannot be asked.
	if err != nil {
		return err
	}
	return pages.AllAnswer(host.kernel, all)
}

// putOrAll writes a value. If the kernel does not let the group inherit, it writes all CPUs or memory nodes.
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

// explainList adds the obstacles to an error of the kernel that depends on the value. It returns any other error
// unchanged.
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
