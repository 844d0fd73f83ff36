package plan

import (
	"github.com/berth-project/berth/internal/cpuset"
	"github.com/berth-project/berth/internal/unit"
)

// Kind is what a driver says of its targets without looking at the host. The zero
// value is for targets whose values are the same when they are equal, that may be
// written in any order, and that the next boot resets.
type Kind struct {
	// Same says whether two values mean the same setting. The host's own way of
	// writing a value down, such as a period that the kernel doubled, counts as the
	// same.
	Same func(t Target, a, b Value) bool
	// Forms describes where a change begins and where it leads, in one scale.
	Forms func(c Change) (from, to Form)
	// Mangled says whether v is what the host itself may make of a recorded value
	// by mistake, so that v is Berth's as far as the recorded value is.
	Mangled func(t Target, v, recorded Value) bool
	// Part says whether v is what the host may have made of a change that it takes in part.
	Part func(t Target, v, from, to Value) bool
	// Recurs says that another program has the values of a target on record, and gives them
	// to whatever is made next under its name: that starts with the value of Berth's.
	Recurs func(t Target) bool
	// Lifetime is how long the values stand.
	Lifetime Lifetime
}

// Lifetime is how long a value stands on the host.
type Lifetime string

const (
	// ThisBoot is for values that the next boot resets: an entry of the journal
	// means nothing any more after it.
	ThisBoot Lifetime = ""
	// Persistent is for values that outlive a boot, and so do their originals.
	Persistent Lifetime = "persistent"
)

// Kinds has every kind of target by its driver's name. Of one that it does not have
// it says what the zero Kind says. Whoever has it does not change it.
type Kinds map[Driver]Kind

// Same says whether two values of a target mean the same setting.
func (k Kinds) Same(t Target, a, b Value) bool {
	if same := k[t.Driver].Same; same != nil && a != b {
		return same(t, a, b)
	}
	return a == b
}

// Mangled says whether v is what the host itself may make of a recorded value.
func (k Kinds) Mangled(t Target, v, recorded Value) bool {
	mangled := k[t.Driver].Mangled
	return mangled != nil && mangled(t, v, recorded)
}

// Part says whether v is what the host may have made of a change that it takes in part.
func (k Kinds) Part(t Target, v, from, to Value) bool {
	part := k[t.Driver].Part
	return part != nil && part(t, v, from, to)
}

// Recurs says that what is made next under the target's name has its value again.
func (k Kinds) Recurs(t Target) bool {
	recurs := k[t.Driver].Recurs
	return recurs != nil && recurs(t)
}

// Lifetime returns how long a value of the target stands.
func (k Kinds) Lifetime(t Target) Lifetime { return k[t.Driver].Lifetime }

// Shape says which rules of order there are for a value.
type Shape int

const (
	// Plain is a value that the host takes in any order.
	Plain Shape = iota
	// Limit is a quota in every period, or none.
	Limit
	// Burst is what may pile up under the limit of the same path.
	Burst
	// List is a set of CPUs or memory nodes. Its value is written in the kernel's
	// list format.
	List
)

// Form is a value as the order of writes needs to know it.
type Form struct {
	Shape Shape
	// Tree is the hierarchy in which the rules of the shape hold, and Path is where
	// in it the value is.
	Tree, Path string
	// N and Period are those of a limit or a burst, in microseconds. A negative N
	// is no limit.
	N, Period unit.Micros
	// Set is that of a list. One that inherits has what the nearest path above has.
	Set      cpuset.Set
	Inherits bool
	// Exclusive says of a list that no other path may have a part of one that a
	// pinned workload has, not even for a moment.
	Exclusive bool
}

// forms describes a change, also of a kind without rules.
func (k Kinds) forms(c Change) (from, to Form) {
	if forms := k[c.Driver].Forms; forms != nil {
		return forms(c)
	}
	plain := Form{Tree: string(c.Driver), Path: c.Object}
	return plain, plain
}
