package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/internal/value/cpuset"
)

const (
	// KnobPartition is the group's kind of cpuset partition on v2: Member, root or isolated. The kernel accepts each
	// kind at any time. If it cannot make the partition, the file reads "isolated invalid (reason)" (update_prstate in
	// kernel/cgroup/cpuset.c).
	KnobPartition Knob = "cpuset.cpus.partition"
	// KnobExclusive is the CPUs that the group, or groups below it, may use for partitions, or Inherit for none:
	// cpuset.cpus.exclusive on v2, since Linux 6.7. For a partition below a group that is no partition, every group
	// above needs these CPUs.
	KnobExclusive Knob = "cpuset.cpus.exclusive"
)

// Member is the KnobPartition value of a group that is no partition.
const Member Value = "member"

// NoSlice is the value of a slice as a whole that has neither CPUs nor a partition: it does not run, or systemd started
// it for the units in it. Any other value is its SliceText.
const NoSlice = "none"

// SliceText returns the value of a slice as a whole: its KnobPartition and its CPUs, such as "isolated 2-3" or "member
// 2-3".
func SliceText(kind, cpus string) string { return strings.TrimSpace(kind + " " + cpus) }

func (k Knob) isPartition() bool { return k == KnobPartition || k == KnobExclusive }

// Invalid returns the reason why the kernel does not maintain the partition that a KnobPartition value names. It
// returns false for a valid partition.
func (v Value) Invalid() (why string, invalid bool) {
	_, why, invalid = strings.Cut(string(v), " invalid")
	return strings.Trim(why, " ()"), invalid
}

// partition reads the file of a partition knob.
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

// encodePartition is Encode for the partition knobs.
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

// Spare returns a list of CPUs without the CPUs of sibling cpuset partitions, including their offline CPUs. From Linux
// 6.1 to 6.19 the kernel ends a partition whose CPUs are written to a sibling group (validate_change in
// kernel/cgroup/cpuset.c; from 6.12 on cpus_excl_conflict). Partitions elsewhere in the tree are not affected.
//
// If no CPU remains, or a sibling cannot be read, Spare returns the group's current list. It returns any other value
// unchanged.
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

// partitionsBeside returns the CPUs of the valid partitions among the group's siblings.
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

// partitionOf returns the CPUs of the group at path if it is a valid partition: its list and its exclusive CPUs.
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
		set, _, _ := list.List() // empty for a malformed list or Inherit
		all = all.Union(set)
	}
	return all, nil
}

// unlessNone returns nil for an error that means that no partition exists: the group is gone or lacks its own cpuset,
// or the kernel lacks the file. It returns any other error.
func unlessNone(err error) error {
	for _, none := range []error{ErrNoGroup, ErrNoController, ErrNoKnob, hostfs.ErrGone, fs.ErrNotExist} {
		if errors.Is(err, none) {
			return nil
		}
	}
	return err
}

// Populated reports whether a process is in the group or below it, by cgroup.events of v2. It is false if the file
// cannot be read.
func Populated(g *Group) bool {
	text, err := g.read(CPUSet, "cgroup.events")
	return err == nil && strings.Contains(string(text), "populated 1")
}
