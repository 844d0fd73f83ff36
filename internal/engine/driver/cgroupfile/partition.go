package cgroupfile

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/berth-project/berth/internal/engine/apply"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/cgroup"
)

// errPartition says that a group is a cpuset partition.
var errPartition = errors.New("is a cpuset partition: a write to its list could end it")

// NotAPartition returns errPartition if a group is a partition. On cgroup v1, and without the file
// cpuset.cpus.partition, no group is a partition.
func NotAPartition(g *cgroup.Group) error {
	if kind, err := g.Read(cgroup.KnobPartition); err == nil && kind != cgroup.Member && kind != "" {
		return fmt.Errorf("%s %w (%s is %q)", g.Path(), errPartition, cgroup.KnobPartition, string(kind))
	}
	return nil
}

// isPartition reports whether a target is one of the two partition knobs.
func isPartition(t plan.Target) bool { return IsPartition(t) || IsExclusive(t) }

// IsPartition reports whether a target makes a group a partition.
func IsPartition(t plan.Target) bool { return IsGroup(t) && Knob(t) == cgroup.KnobPartition }

// IsExclusive reports whether a target is the CPUs that partitions may take.
func IsExclusive(t plan.Target) bool { return IsGroup(t) && Knob(t) == cgroup.KnobExclusive }

// writePartition makes or ends a partition, or sets the CPUs that partitions may take. It reads the result back,
// because the kernel accepts a partition that it cannot make.
func (s *groups) writePartition(g *cgroup.Group, c plan.Change) (cgroup.Value, error) {
	k, wanted := Knob(c.Target), cgroup.Value(c.Value)
	err := put(g, k, wanted)
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("%w: %w", apply.ErrRefused, err)
	}
	if err != nil {
		return "", explainList(g, k, wanted, err)
	}
	s.call.Written(c.Target)
	s.GiveBack(c.Target)
	stands, err := g.Read(k)
	switch {
	case err != nil:
		return "", err
	case !cgroup.Same(k, stands, wanted):
		return stands, fmt.Errorf("wrote %s, the kernel has %s: %w", wanted, stands, apply.ErrNotEffective)
	case k == cgroup.KnobPartition && wanted != cgroup.Member:
		return stands, hasItsCPUs(g)
	}
	return stands, nil
}

// hasItsCPUs returns ErrNotEffective if a partition has other CPUs than it was given.
func hasItsCPUs(g *cgroup.Group) error {
	list, err := g.Read(cgroup.KnobCPUs)
	if err != nil {
		return err
	}
	given, _, err := list.List()
	if err != nil {
		return err
	}
	has, err := g.EffectiveCPUs()
	if err == nil && has != given {
		err = fmt.Errorf("the partition is to have CPUs %s, the kernel gave it %s: %w", given, has, apply.ErrNotEffective)
	}
	return err
}
