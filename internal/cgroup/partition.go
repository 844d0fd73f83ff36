package cgroup

import (
	"fmt"
	"strings"

	"github.com/berth-project/berth/internal/cpuset"
	"github.com/berth-project/berth/internal/hostfs"
)

const (
	// KnobPartition is which kind of partition the group is: Member, root or isolated, on v2.
	// The kernel takes each of them at any time, and keeps a partition that it cannot make as
	// "isolated invalid (reason)" (update_prstate in kernel/cgroup/cpuset.c): only the file
	// says which it is.
	KnobPartition Knob = "cpuset.cpus.partition"
	// KnobExclusive is the CPUs that partitions among the groups below, or the group itself, may
	// take, or Inherit for none: cpuset.cpus.exclusive on v2, since Linux 6.7. A partition below
	// a group that is none needs them in every group above.
	KnobExclusive Knob = "cpuset.cpus.exclusive"
)

// Member is the value of KnobPartition of a group that is no partition.
const Member Value = "member"

func (k Knob) isPartition() bool { return k == KnobPartition || k == KnobExclusive }

// Invalid returns the reason for which the kernel does not keep the partition that a value of
// KnobPartition names, and false where it does.
func (v Value) Invalid() (why string, invalid bool) {
	_, why, invalid = strings.Cut(string(v), " invalid")
	return strings.Trim(why, " ()"), invalid
}

// partition reads the file of a knob of partitions.
func partition(g *Group, k Knob) (Value, error) {
	if g.host.controllers[CPUSet].Version != 2 {
		return "", fmt.Errorf("%w: %s of %q: partitions are of cgroup v2", ErrNoKnob, k, g.path)
	}
	data, err := g.read(CPUSet, string(k))
	if err != nil || k == KnobPartition {
		return Value(strings.TrimSpace(string(data))), err
	}
	set, err := cpuset.Parse(string(data))
	switch {
	case err != nil:
		return "", fmt.Errorf("%s of %q: %w: %w", k, g.path, ErrMalformed, err)
	case set.IsEmpty():
		return Inherit, nil
	}
	return ListValue(set), nil
}

// encodePartition is Encode for the knobs of partitions.
func encodePartition(g *Group, k Knob, v Value) (dir *hostfs.Dir, file, content string, err error) {
	if g.host.controllers[CPUSet].Version != 2 {
		return nil, "", "", fmt.Errorf("%w: %s of %q: partitions are of cgroup v2", ErrNoKnob, k, g.path)
	}
	if dir, err = g.Dir(CPUSet); err != nil {
		return nil, "", "", err
	}
	if k == KnobExclusive && v == Inherit {
		return dir, string(k), "\n", nil
	}
	return dir, string(k), string(v), nil
}
