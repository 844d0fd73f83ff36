package cgroupfile

import (
	"strconv"
	"strings"

	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/value/unit"
)

// Values returns what the three kinds say about their values without a host.
func Values() plan.Kinds {
	kind := plan.Kind{Same: same, Forms: forms, Mangled: mangled}
	ofUnit := kind
	ofUnit.Recurs = func(t plan.Target) bool { return recurs(Unit(t)) }
	return plan.Kinds{Driver: kind, UnitDriver: ofUnit, SliceDriver: {Mangled: mangledSlice}}
}

// recurs reports whether systemd applies the runtime properties of a unit again when the unit restarts. A scope has no
// unit file: systemd forgets it when it ends.
func recurs(unit string) bool { return !strings.HasSuffix(unit, ".scope") }

func same(t plan.Target, a, b plan.Value) bool {
	return cgroup.Same(Knob(t), cgroup.Value(a), cgroup.Value(b))
}

// forms describes a change. If the ratio of the two periods is a power of two, the value is written at the present
// period, and forms uses that period.
func forms(c plan.Change) (from, to plan.Form) {
	if Knob(c.Target).Controller() == cgroup.CPUSet && !isPartition(c.Target) {
		return list(c.Target, c.From), list(c.Target, c.Value)
	}
	from = quantity(c.Target, cgroup.Value(c.From))
	return from, quantity(c.Target, cgroup.ScaleTo(cgroup.Value(c.Value), from.Period))
}

// quantity returns the form of a quota or a burst. A malformed value counts as unlimited; the kernel refuses it.
func quantity(t plan.Target, v cgroup.Value) plan.Form {
	f := plan.Form{Tree: string(cgroup.CPU), Path: t.Object, N: -1, Period: 1}
	switch Knob(t) {
	case cgroup.KnobRTRuntime:
		f.Shape, f.Tree = plan.Limit, t.Knob
		if n, err := strconv.ParseInt(string(v), 10, 64); err == nil {
			f.N = unit.Micros(n)
		}
		return f
	case cgroup.KnobMax:
		f.Shape = plan.Limit
	case cgroup.KnobBurst:
		f.Shape = plan.Burst
	default:
		return f
	}
	if n, period, err := v.Pair(); err == nil {
		f.N, f.Period = n, period
	}
	return f
}

// list returns the form of CPUs or memory nodes. A malformed list counts as inherited; the kernel refuses it.
func list(t plan.Target, v plan.Value) plan.Form {
	set, inherits, err := cgroup.Value(v).List()
	return plan.Form{
		Shape: plan.List, Tree: t.Knob, Path: t.Object,
		Set: set, Inherits: inherits || err != nil, Exclusive: Knob(t) == cgroup.KnobCPUs,
	}
}

// mangled reports whether v is a value that the kernel may leave in place of a recorded value.
func mangled(t plan.Target, v, recorded plan.Value) bool {
	switch Knob(t) {
	case cgroup.KnobPrecedence:
		return leftByIdle(v, recorded)
	case cgroup.KnobPartition:
		kind, _, invalid := strings.Cut(string(v), " invalid")
		return invalid && kind == string(recorded)
	}
	return divided(t, v, recorded)
}

// leftByIdle reports whether idle is recorded and v is the default weight. Berth may crash between its two writes. No
// writer can give an idle group another weight without first setting this default.
func leftByIdle(v, recorded plan.Value) bool {
	return cgroup.Value(recorded) == cgroup.Idle && cgroup.LeftByIdle(cgroup.Value(v))
}

// burstLost is the divisor that a write to cpu.max applies to the burst on the kernels that keepBurst describes.
const burstLost = 1000

// divided reports whether v is a recorded burst divided by 1000. Some cgroup v2 kernels leave that value when cpu.max
// is written. Write restores the burst at once, but a crash may come first.
func divided(t plan.Target, v, recorded plan.Value) bool {
	n, period, err := cgroup.Value(v).Pair()
	if Knob(t) != cgroup.KnobBurst || err != nil || n == 0 {
		return false
	}
	whole, at, err := cgroup.ScaleTo(cgroup.Value(recorded), period).Pair()
	return err == nil && at == period && whole/burstLost == n
}
