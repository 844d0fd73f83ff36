package plan

import (
	"github.com/berth-project/berth/internal/linux/cgroup"
)

// files is a kind like the files of control groups: the write order in these tests matches the kernel's rules.
const files Driver = "files"

func kinds() Kinds {
	return Kinds{files: {
		Same: func(t Target, a, b Value) bool {
			return cgroup.Same(cgroup.Knob(t.Knob), cgroup.Value(a), cgroup.Value(b))
		},
		Forms: func(c Change) (from, to Form) {
			k := cgroup.Knob(c.Knob)
			if k == cgroup.KnobCPUs || k == cgroup.KnobMems {
				return listForm(c.Target, c.From), listForm(c.Target, c.Value)
			}
			from = quantityForm(c.Target, cgroup.Value(c.From))
			return from, quantityForm(c.Target, cgroup.ScaleTo(cgroup.Value(c.Value), from.Period))
		},
	}}
}

func listForm(t Target, v Value) Form {
	set, inherits, err := cgroup.Value(v).List()
	return Form{
		Shape: List, Tree: t.Knob, Path: t.Object,
		Set: set, Inherits: inherits || err != nil, Exclusive: t.Knob == string(cgroup.KnobCPUs),
	}
}

func quantityForm(t Target, v cgroup.Value) Form {
	f := Form{Shape: Limit, Tree: "cpu", Path: t.Object, N: -1, Period: 1}
	if t.Knob == string(cgroup.KnobBurst) {
		f.Shape = Burst
	}
	if n, period, err := v.Pair(); err == nil {
		f.N, f.Period = n, period
	}
	return f
}

func fileTarget(group string, k cgroup.Knob) Target {
	return Target{Driver: files, Object: group, Knob: string(k)}
}
