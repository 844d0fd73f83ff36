package profile

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/linux/knob"
	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// Bound is a profile bound to a machine.
type Bound struct {
	Name     string
	Sets     map[string]Set
	Settings []Setting
	Units    []Unit
	// Boot holds the arguments, with the CPUs of the sets filled in.
	Boot []string
}

// Set is a named set of CPUs.
type Set struct {
	CPUs      cpuset.Set
	Partition v1alpha1.CPUPartition
}

// Setting is the desired value of a knob.
type Setting struct {
	Knob     knob.Knob
	Value    knob.Value
	Optional bool
}

// Unit is the desired state of a systemd unit. A field without a desired value is empty.
type Unit struct {
	Name       string
	CPUs, Mems cpuset.Set
	Policy     string
	Slice      string
	// RTBudget is the budget of its group for real-time threads, in microseconds of each second, 0 for none.
	RTBudget int64
	// Partition is the kind of partition that the unit becomes, "" for none. Set is the name of the set that requires
	// it.
	Partition v1alpha1.CPUPartition
	Set       string
}

// Exclusive reports whether a set keeps other work away.
func (s Set) Exclusive() bool {
	return s.Partition == v1alpha1.PartitionIsolated || s.Partition == v1alpha1.PartitionRoot
}

// Bind binds a whole profile to a machine. Problems are v1alpha1.ErrInvalid.
func Bind(d Document, t *topology.Topology) (Bound, error) {
	b := binder{machine: t, spec: d.Spec, sets: map[string]Set{}, partitions: map[string]string{}}
	for _, name := range slices.Sorted(maps.Keys(d.Spec.CPUs)) {
		b.set(name, nil)
	}
	bound := Bound{Name: d.Name, Sets: b.sets}
	if len(b.problems) > 0 {
		return bound, d.located(b.problems).Err()
	}
	files := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(d.Spec.Settings)) {
		s, ok := b.setting(name, d.Spec.Settings[name])
		if !ok {
			continue
		}
		for _, p := range s.Knob.Places {
			if other := files[p.File]; other != "" {
				b.refuse(settingField(name), s.Value.Text, "only without "+other+", which is the same file "+p.File)
			}
			files[p.File] = name
		}
		bound.Settings = append(bound.Settings, s)
	}
	for i, u := range d.Spec.Units {
		bound.Units = append(bound.Units, b.unit(fmt.Sprintf("spec.units[%d]", i), u))
	}
	for i, arg := range d.Spec.Boot {
		bound.Boot = append(bound.Boot, b.boot(fmt.Sprintf("spec.boot[%d]", i), arg))
	}
	return bound, d.located(b.problems).Err()
}

type binder struct {
	machine  *topology.Topology
	spec     v1alpha1.ProfileSpec
	sets     map[string]Set
	problems v1alpha1.FieldErrors
	// partitions is the unit that becomes a partition, by the name of its set.
	partitions map[string]string
}

func (b *binder) refuse(field, value, allowed string) {
	b.problems = append(b.problems, problem(field, value, allowed)...)
}

// set resolves a set, after the sets in its without list. path is the names of the sets that wait for this set.
func (b *binder) set(name string, path []string) cpuset.Set {
	if s, done := b.sets[name]; done {
		return s.CPUs
	}
	spec := b.spec.CPUs[name]
	field, before := setField(name), len(b.problems)
	b.sets[name] = Set{Partition: spec.Partition}
	cpus := b.base(field, spec)
	for i, other := range spec.Without {
		at := fmt.Sprintf("%s.without[%d]", field, i)
		if _, known := b.spec.CPUs[other]; !known {
			b.refuse(at, other, "the name of a set in spec.cpus: "+b.setList())
		} else if slices.Contains(append(path, name), other) {
			b.refuse(at, other, "a set that is not itself without "+name)
		} else {
			cpus = cpus.Difference(b.set(other, append(path, name)))
		}
	}
	if cpus.IsEmpty() && len(b.problems) == before {
		b.refuse(field, name, "a set with at least one CPU: nothing is left of it on this machine")
	}
	b.sets[name] = Set{CPUs: cpus, Partition: spec.Partition}
	return cpus
}

func (b *binder) setList() string {
	return strings.Join(slices.Sorted(maps.Keys(b.spec.CPUs)), ", ")
}

// base returns the initial CPUs of a set.
func (b *binder) base(field string, spec v1alpha1.ProfileCPUs) cpuset.Set {
	cpus := b.machine.Online
	if spec.CPUs != "" {
		return b.list(field+".cpus", spec.CPUs)
	}
	if spec.NUMANodes != "" {
		cpus = b.machine.CPUsOf(b.nodes(field+".numaNodes", spec.NUMANodes)).Intersect(b.machine.Online)
	}
	if spec.CoresPerNUMANode == nil {
		return cpus
	}
	var kept cpuset.Set
	for _, node := range b.machine.Nodes {
		left := *spec.CoresPerNUMANode
		for _, core := range b.machine.Cores { // sorted by their lowest CPU
			if left > 0 && core.CPUs.IsSubsetOf(node.CPUs.Intersect(cpus)) {
				kept = kept.Union(core.CPUs)
				left--
			}
		}
		if left > 0 && node.CPUs.Intersects(cpus) {
			b.refuse(field+".coresPerNUMANode", fmt.Sprint(*spec.CoresPerNUMANode), fmt.Sprintf("at most the %d cores of NUMA node %d", *spec.CoresPerNUMANode-left, node.ID))
		}
	}
	return kept
}

// list reads a CPU list of this machine.
func (b *binder) list(field, list string) cpuset.Set {
	cpus, err := cpuset.Parse(list)
	if err != nil || cpus.IsEmpty() {
		b.refuse(field, list, "a list of CPUs such as 0-3,8, or the name of a set in spec.cpus: "+b.setList())
		return cpus
	}
	if missing := cpus.Difference(b.machine.Online); !missing.IsEmpty() {
		b.refuse(field, list, fmt.Sprintf("online CPUs of this machine, %s; it has no %s", b.machine.Online, missing))
		return cpuset.Set{}
	}
	return cpus
}

// named returns the CPUs of a set by name, or of a list.
func (b *binder) named(field, text string) cpuset.Set {
	if s, ok := b.sets[text]; ok {
		return s.CPUs
	}
	return b.list(field, text)
}

// nodes reads a list of NUMA nodes of this machine.
func (b *binder) nodes(field, list string) cpuset.Set {
	var all cpuset.Set
	for _, n := range b.machine.Nodes {
		all = all.Add(int(n.ID))
	}
	nodes, err := cpuset.Parse(list)
	if err != nil || !nodes.IsSubsetOf(all) {
		b.refuse(field, list, "NUMA nodes of this machine, "+all.String())
		return cpuset.Set{}
	}
	return nodes
}

func (b *binder) setting(name string, s v1alpha1.ProfileSetting) (Setting, bool) {
	k, _ := knob.Lookup(name) // Check has validated it
	v, err := k.Parse(string(s.Value))
	if err != nil {
		return Setting{}, false
	}
	if k.Unit == knob.CPUs {
		v = knob.Value{Text: b.named(settingField(name), v.Text).String()}
	}
	return Setting{Knob: k, Value: v, Optional: s.Optional}, true
}

func (b *binder) unit(field string, u v1alpha1.ProfileUnit) Unit {
	bound := Unit{Name: u.Unit, Policy: u.Policy, Slice: u.Slice}
	if budget, err := parseBudget(u.RTBudget); err == nil && u.RTBudget != "" { // Check has validated it
		bound.RTBudget = budget
	}
	if u.CPUs != "" {
		bound.CPUs = b.named(field+".cpus", u.CPUs)
	}
	if set := b.sets[u.CPUs]; set.Exclusive() {
		bound.Partition, bound.Set = set.Partition, u.CPUs
		if other := b.partitions[u.CPUs]; other != "" {
			b.refuse(field+".cpus", u.CPUs, "a set of its own: "+other+" is the partition of this one; units share one through the slice that they are in")
		}
		b.partitions[u.CPUs] = u.Unit
	}
	switch {
	case u.Mems == Local && u.CPUs == "":
		b.refuse(field+".mems", u.Mems, "a list of NUMA nodes; local only with cpus")
	case u.Mems == Local:
		bound.Mems = b.machine.MemoryNear(bound.CPUs)
		if bound.Mems.IsEmpty() && !bound.CPUs.IsEmpty() {
			b.refuse(field+".mems", u.Mems, "a list of NUMA nodes: those of CPUs "+bound.CPUs.String()+" have no memory")
		}
	case u.Mems != "":
		bound.Mems = b.nodes(field+".mems", u.Mems)
	}
	return bound
}

// boot inserts the CPUs of sets into an argument.
func (b *binder) boot(field, arg string) string {
	for _, name := range setNames(arg) {
		if _, known := b.sets[name]; !known {
			b.refuse(field, arg, "$NAME with the name of a set in spec.cpus: "+b.setList())
			return arg
		}
	}
	return setName().ReplaceAllStringFunc(arg, func(name string) string { return b.sets[name[1:]].CPUs.String() })
}
