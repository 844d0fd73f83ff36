package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
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

// Spare returns a list of CPUs without those of the cpuset partitions beside the group, also the ones of
// these that are offline: from Linux 6.1 to 6.19 the kernel ends a partition whose CPUs are written to
// another group below the same one (validate_change in kernel/cgroup/cpuset.c; from 6.12 on
// cpus_excl_conflict). Partitions elsewhere in the tree lose nothing. Of a list that they have all
// of nothing can be written: then it is the one that the group has, and so it is where one of them cannot be
// read. Any other value comes back unchanged.
func Spare(g *Group, v Value) Value {
	set, inherits, err := v.List()
	if err != nil || inherits || g.path == "" || g.host.controllers[CPUSet].Version != 2 {
		return v
	}
	theirs, err := partitionsBeside(g)
	switch left := set.Difference(theirs); {
	case err == nil && left == set:
		return v
	case err == nil && !left.IsEmpty():
		return ListValue(left)
	}
	if stands, err := g.list(KnobCPUs); err == nil {
		return stands
	}
	return v
}

// partitionsBeside returns the CPUs of valid partitions below the group above, but for the group itself.
func partitionsBeside(g *Group) (all cpuset.Set, err error) {
	above, err := g.host.Group(parentOf(g.path), CPUSet)
	if err != nil {
		return cpuset.Set{}, err
	}
	defer above.Close()
	paths, err := above.Children(CPUSet)
	if err != nil {
		return cpuset.Set{}, err
	}
	for _, path := range paths {
		if path = strings.TrimPrefix(path, "/"); path == g.path {
			continue
		}
		cpus, err := partitionOf(g.host, path)
		if err != nil {
			return cpuset.Set{}, err
		}
		all = all.Union(cpus)
	}
	return all, nil
}

// partitionOf returns the CPUs of the group where it is a valid partition: those of its list, and those
// that it may take beside the list.
func partitionOf(h *Host, path string) (all cpuset.Set, err error) {
	g, err := h.Group(path, CPUSet)
	if err != nil {
		return cpuset.Set{}, unlessNone(err)
	}
	defer g.Close()
	kind, err := g.Read(KnobPartition)
	if _, invalid := kind.Invalid(); err != nil || invalid || kind == Member || kind == "" {
		return cpuset.Set{}, unlessNone(err)
	}
	for _, k := range []Knob{KnobCPUs, KnobExclusive} {
		list, err := g.Read(k)
		if err = unlessNone(err); err != nil {
			return cpuset.Set{}, err
		}
		set, _, _ := list.List() // the empty set for none
		all = all.Union(set)
	}
	return all, nil
}

// unlessNone is nil for an error that says that there is no partition, or no file of it: the group has gone, or
// has no CPU set of its own, or the kernel no such file.
func unlessNone(err error) error {
	for _, none := range []error{ErrNoGroup, ErrNoController, ErrNoKnob, hostfs.ErrGone, fs.ErrNotExist} {
		if errors.Is(err, none) {
			return nil
		}
	}
	return err
}

// Populated says whether a process is in the group or below it, by cgroup.events of v2; false where that
// cannot be read.
func Populated(g *Group) bool {
	text, err := g.read(CPUSet, "cgroup.events")
	return err == nil && strings.Contains(string(text), "populated 1")
}
