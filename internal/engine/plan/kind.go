package plan

import (
	"github.com/berth-project/berth/internal/value/cpuset"
	"github.com/berth-project/berth/internal/value/unit"
)

// Kind is what a driver says of its targets without reading the host. The zero value is for targets whose values are
// the same only when they are equal. Such values may be written in any order, and the next boot resets them.
type Kind struct {
	// Same reports whether two values mean the same setting. The host's own notation of a value, such as a period that
	// the kernel doubled, means the same setting.
	Same func(t Target, a, b Value) bool
	// Forms returns the forms of the old and the new value of a change, at the same scale.
	Forms func(c Change) (from, to Form)
	// Mangled reports whether the host itself may mistakenly turn a recorded value into v. v is then Berth's if the
	// recorded value is.
	Mangled func(t Target, v, recorded Value) bool
	// Part reports whether v may be what the host made of a change that it applied in part.
	Part func(t Target, v, from, to Value) bool
	// Recurs reports whether another program has the values of a target on record and gives them to any object that is
	// created next under its name. That object then starts with Berth's value.
	Recurs func(t Target) bool
	// Lifetime is how long the values stay in effect.
	Lifetime Lifetime
}

// Lifetime is how long a value stays in effect on the host.
type Lifetime string

const (
	// ThisBoot is for values that the next boot resets: a journal entry means nothing after that boot.
	ThisBoot Lifetime = ""
	// Persistent is for values that outlive a boot. Their originals outlive it too.
	Persistent Lifetime = "persistent"
)

// Kinds maps each driver's name to its kind of target. A missing driver behaves like the zero Kind. Nobody changes a
// Kinds that is in use.
type Kinds map[Driver]Kind

// Same reports whether two values of a target mean the same setting.
func (k Kinds) Same(t Target, a, b Value) bool {
	if a == b {
		return true
	}
	same := k[t.Driver].Same
	return same != nil && same(t, a, b)
}

// Mangled reports whether the host itself may turn a recorded value into v.
func (k Kinds) Mangled(t Target, v, recorded Value) bool {
	mangled := k[t.Driver].Mangled
	return mangled != nil && mangled(t, v, recorded)
}

// Part reports whether v may be what the host made of a change that it applied in part.
func (k Kinds) Part(t Target, v, from, to Value) bool {
	part := k[t.Driver].Part
	return part != nil && part(t, v, from, to)
}

// Recurs reports whether an object that is created next under the target's name gets its value again.
func (k Kinds) Recurs(t Target) bool {
	recurs := k[t.Driver].Recurs
	return recurs != nil && recurs(t)
}

// Lifetime returns how long a value of the target stays in effect.
func (k Kinds) Lifetime(t Target) Lifetime { return k[t.Driver].Lifetime }

// Shape determines which order rules apply to a value.
type Shape int

const (
	// Plain is a value that the host accepts in any order.
	Plain Shape = iota
	// Limit is a quota in every period, or unlimited.
	Limit
	// Burst is the quota that may accumulate under the limit of the same path.
	Burst
	// List is a set of CPUs or memory nodes. Its value is in the kernel's list format.
	List
)

// Form is a value in the form that Order needs.
type Form struct {
	Shape Shape
	// Tree is the hierarchy in which the rules of the shape apply, and Path is the position of the value in it.
	Tree, Path string
	// N and Period are the quota or burst, and its period, in microseconds. A negative N is unlimited.
	N, Period unit.Micros
	// Set is the set of a list. A list that inherits has the set of the nearest path above.
	Set      cpuset.Set
	Inherits bool
	// Exclusive means that paths whose owners are apart (Owner.Apart) must not share a member of such a list, not even
	// for a moment.
	Exclusive bool
}

// forms returns the forms of the old and the new value, also for a kind without rules.
func (k Kinds) forms(c Change) (from, to Form) {
	if forms := k[c.Driver].Forms; forms != nil {
		return forms(c)
	}
	plain := Form{Tree: string(c.Driver), Path: c.Object}
	return plain, plain
}
