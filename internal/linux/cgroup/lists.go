package cgroup

import (
	"fmt"
	"strings"

	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// Inherit is the value of KnobCPUs and KnobMems of a v2 group without a list of its own. The group's file is empty, and
// the group uses the list of the group above. v1 has no equivalent. While the group contains processes the kernel
// refuses to empty the file again (ENOSPC): see Unlimited.
const Inherit Value = "inherit"

// ListValue returns the value of KnobCPUs or KnobMems for a set. The text of the empty set is not a valid value.
func ListValue(s cpuset.Set) Value { return Value(s.String()) }

// List returns the set that a value of KnobCPUs or KnobMems names. For Inherit it returns the empty set and true. The
// error is ErrMalformed, also for an empty list.
func (v Value) List() (set cpuset.Set, inherits bool, err error) {
	if v == Inherit {
		return cpuset.Set{}, true, nil
	}
	set, err = cpuset.Parse(string(v))
	if err != nil {
		return cpuset.Set{}, false, fmt.Errorf("value %q: %w: %w", string(v), ErrMalformed, err)
	}
	if set.IsEmpty() {
		return cpuset.Set{}, false, fmt.Errorf("value %q, an empty list: %w", string(v), ErrMalformed)
	}
	return set, false, nil
}

func (k Knob) isList() bool { return k == KnobCPUs || k == KnobMems }

func sameLists(a, b Value) bool {
	as, ainherits, aerr := a.List()
	bs, binherits, berr := b.List()
	return aerr == nil && berr == nil && ainherits == binherits && as == bs
}

// list reads the list that was written, which may differ from the list in effect.
func (g *Group) list(k Knob) (Value, error) {
	hier, err := g.host.Hierarchy(CPUSet)
	if err != nil {
		return "", fmt.Errorf("group %q: %w", g.path, err)
	}
	name := placesOf(k).v1
	if hier.Version == 2 {
		name = placesOf(k).v2
	}
	data, err := g.read(CPUSet, name)
	if err != nil {
		return "", err
	}
	set, err := cpuset.Parse(string(data))
	switch {
	case err != nil:
		return "", fmt.Errorf("%s of %q: %w: %w", name, g.path, ErrMalformed, err)
	case set.IsEmpty() && hier.Version == 2:
		return Inherit, nil
	case set.IsEmpty():
		return "", fmt.Errorf("%w: %s of %q is empty", ErrUnset, name, g.path)
	}
	return ListValue(set), nil
}

// encodeList is Encode for the lists. On v2 an empty line removes a list; an empty write would change nothing.
func (g *Group) encodeList(k Knob, v Value) (dir *hostfs.Dir, file, content string, err error) {
	set, inherits, err := v.List()
	if err != nil {
		return nil, "", "", fmt.Errorf("%s of %q: %w", k, g.path, err)
	}
	if dir, err = g.Dir(CPUSet); err != nil {
		return nil, "", "", err
	}
	v1 := g.host.controllers[CPUSet].Version == 1
	switch {
	case inherits && v1:
		return nil, "", "", fmt.Errorf("%s of %q: a cpuset of v1 cannot inherit: %w", k, g.path, ErrMalformed)
	case inherits:
		return dir, placesOf(k).v2, "\n", nil
	case v1:
		return dir, placesOf(k).v1, set.String(), nil
	}
	return dir, placesOf(k).v2, set.String(), nil
}

// InEffect reports whether a value of KnobCPUs or KnobMems is in effect, and returns the CPUs or nodes that the kernel
// really uses.
//
// On v1 these must equal v. On v2 they must equal the intersection of v and the group above, or all of the group above
// for Inherit. An empty intersection, because of the groups above or offline CPUs, is not in effect: the kernel then
// silently uses all of the group above. The errors are those of Effective, and ErrMalformed.
func (g *Group) InEffect(k Knob, v Value) (effective cpuset.Set, ok bool, err error) {
	want, inherits, err := v.List()
	if err != nil {
		return cpuset.Set{}, false, err
	}
	if effective, err = g.Effective(k); err != nil {
		return cpuset.Set{}, false, err
	}
	if g.host.controllers[CPUSet].Version != 2 {
		return effective, effective == want, nil
	}
	above, err := g.above(k)
	if err != nil {
		return effective, false, err
	}
	if !inherits {
		above = above.Intersect(want)
	}
	return effective, !above.IsEmpty() && effective == above, nil
}

// above returns the CPUs or nodes that are in effect in the group above.
func (g *Group) above(k Knob) (cpuset.Set, error) {
	if g.path == "" {
		return g.host.all(k)
	}
	parent, err := g.host.Group(parentOf(g.path), CPUSet)
	if err != nil {
		return cpuset.Set{}, err
	}
	defer parent.Close()
	return parent.Effective(k)
}

// parentOf returns the path of the group above, "" for the root.
func parentOf(path string) string {
	if up := ancestors(path); len(up) > 0 {
		return up[0]
	}
	return ""
}

// Unpinned returns the value of KnobCPUs or KnobMems that a group without its own list has. That is Inherit on v2. On
// v1 it is the list of the group above, which container runtimes copy. The errors are those of Read for that group.
func (g *Group) Unpinned(k Knob) (Value, error) {
	hier, err := g.host.Hierarchy(CPUSet)
	if err != nil {
		return "", fmt.Errorf("group %q: %w", g.path, err)
	}
	if hier.Version == 2 {
		return Inherit, nil
	}
	parent, err := g.host.Group(parentOf(g.path), CPUSet)
	if err != nil {
		return "", err
	}
	defer parent.Close()
	return parent.list(k)
}

// Attainable returns the form of a value that the group can have at this moment. On v1 the kernel permanently removes a
// CPU that goes offline from every cpuset, and refuses it in new lists until it is back. Attainable therefore removes
// offline CPUs from a KnobCPUs value, so that their absence is not drift. It leaves a value without any online CPU
// unchanged.
//
// v2 keeps the list as written. For Inherit, of either list, Attainable returns Unlimited. It returns any other value
// unchanged.
func (g *Group) Attainable(k Knob, v Value) Value {
	if v == Inherit && k.isList() {
		return g.Unlimited(k)
	}
	if k != KnobCPUs || g.host.controllers[CPUSet].Version != 1 {
		return v
	}
	set, _, err := v.List()
	if err != nil {
		return v
	}
	online, err := g.host.all(KnobCPUs)
	if left := set.Intersect(online); err == nil && left != set && !left.IsEmpty() {
		return ListValue(left)
	}
	return v
}

// Unlimited returns the v2 list that has the same effect as Inherit: all CPUs or nodes that the machine may ever have.
// The group then uses all of the group above. Berth restores a group with processes to this list. Where the list is
// unknown, Unlimited returns Inherit.
func (g *Group) Unlimited(k Knob) Value {
	set, err := g.host.readList(placesOf(k).possible)
	if err != nil || set.IsEmpty() {
		return Inherit
	}
	return ListValue(set)
}

// KeepsPages reports whether pages stay where they are when the memory nodes of a group change. This is true on v1
// while cpuset.memory_migrate is 0, the default. It is false on v2.
func KeepsPages(g *Group) bool {
	dir, err := g.Dir(CPUSet)
	if err != nil {
		return false
	}
	migrate, err := dir.ReadFile("cpuset.memory_migrate")
	return err == nil && strings.TrimSpace(string(migrate)) == "0"
}

// IsUnlimited reports whether a group's list has the same effect as Inherit without being Inherit. On v1 it is always
// false.
func IsUnlimited(g *Group, k Knob, v Value) bool {
	all := g.Unlimited(k)
	return g.host.controllers[CPUSet].Version == 2 && v != Inherit && all != Inherit && Same(k, v, all)
}

// Obstacles returns the reasons, in words, that keep a value of KnobCPUs or KnobMems from being accepted or in effect.
// It checks for CPUs or nodes that are offline or that the group above lacks, and on v1 for groups below with a wider
// list. It reads several groups, so use it only to explain a failure.
func (g *Group) Obstacles(k Knob, v Value) []string {
	want, inherits, err := v.List()
	if err != nil || inherits {
		return nil
	}
	var why []string
	if online, err := g.host.all(k); err == nil && !want.IsSubsetOf(online) {
		why = append(why, fmt.Sprintf("%s is not online", want.Difference(online)))
	}
	if above, err := g.above(k); err == nil && g.path != "" && !want.IsSubsetOf(above) {
		why = append(why, fmt.Sprintf("the group above, %q, has %s only", parentOf(g.path), above))
	}
	if g.host.controllers[CPUSet].Version == 1 {
		why = append(why, g.wider(k, want)...)
	}
	return why
}

// wider describes the groups right below whose lists exceed the set, which v1 does not allow.
func (g *Group) wider(k Knob, set cpuset.Set) []string {
	dir, err := g.Dir(CPUSet)
	if err != nil {
		return nil
	}
	entries, err := dir.ReadDir()
	if err != nil {
		return nil
	}
	var why []string
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		has, err := g.host.readList(dirName(g, e.Name()) + "/" + placesOf(k).v1)
		if err == nil && !has.IsSubsetOf(set) {
			why = append(why, fmt.Sprintf("the group below, %q, has %s", g.path+"/"+e.Name(), has))
		}
	}
	return why
}

func dirName(g *Group, below string) string {
	return g.host.controllers[CPUSet].Mount + "/" + g.path + "/" + below
}
