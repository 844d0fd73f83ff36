package cgroup

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/berth-project/berth/internal/value/unit"
)

// Knob is one setting of a group, under its cgroup v2 name.
type Knob string

const (
	// KnobMax is the CPU bandwidth limit, "QUOTA PERIOD" in microseconds, with "max" for no quota. It is cpu.max on v2,
	// and cpu.cfs_quota_us with cpu.cfs_period_us on v1. The kernel accepts periods from 1 ms to 1 s, and quotas from 1
	// ms that are not below the burst in force.
	KnobMax Knob = "cpu.max"
	// KnobBurst is how much unused quota a group may accumulate, "BURST PERIOD" in microseconds: cpu.max.burst on v2,
	// cpu.cfs_burst_us on v1, since Linux 5.14. The period only gives the scale and is not written. The mainline kernel
	// refuses a burst above the quota.
	KnobBurst Knob = "cpu.max.burst"
	// KnobCPUs is the CPUs that the group's processes may run on, in the kernel's list format: cpuset.cpus on both
	// versions. On v2 it may also be Inherit.
	KnobCPUs Knob = "cpuset.cpus"
	// KnobMems is the memory nodes that the group's processes get new pages from, in the format of KnobCPUs:
	// cpuset.mems on both versions. On v2 a change also moves existing pages (since Linux 5.15); on v1 only if
	// cpuset.memory_migrate is 1.
	KnobMems Knob = "cpuset.mems"
	// KnobPrecedence is the group's share of a CPU for which sibling groups compete: Idle, or "weight N" on v2 and
	// "shares N" on v1. It is one knob over two files, cpu.idle and cpu.weight or cpu.shares, because the kernel ties
	// them together.
	//
	// It must not be written to the kubelet's own groups of a QoS class. The kubelet writes their shares when it
	// starts; an idle group refuses that write, and the kubelet then does not start. The caller enforces this rule.
	KnobPrecedence Knob = "precedence"
	// KnobIdentity is the Group Identity of the Alibaba and Anolis kernels: -1 for offline work, 1 or 2 for online
	// work. It is cpu.bvt_warp_ns on v1. No other kernel has it.
	KnobIdentity Knob = "cpu.bvt_warp_ns"
	// KnobRTRuntime is how much of cpu.rt_period_us the real-time threads of the group and the groups below it may run,
	// in microseconds. It exists on v1, on kernels with CONFIG_RT_GROUP_SCHED. Sibling groups share the runtime of the
	// group above.
	KnobRTRuntime Knob = "cpu.rt_runtime_us"
)

// Value is the value of a Knob in canonical form. For KnobMax and KnobBurst it is two decimal numbers without sign or
// leading zeros, separated by one blank; the first may be "max". For KnobCPUs and KnobMems it is a list or Inherit. For
// KnobPrecedence it is Idle, or a word and a number. For KnobIdentity and KnobRTRuntime it is a number.
type Value string

// Controller returns the controller whose hierarchy has the knob's file.
func (k Knob) Controller() Controller {
	if k.isList() || k.isPartition() {
		return CPUSet
	}
	return CPU
}

// isNumber reports whether the knob's file has the knob's name and contains a number.
func (k Knob) isNumber() bool { return k == KnobIdentity || k == KnobRTRuntime }

// WithoutController returns the value that applies to a v2 group without the knob's controller: Inherit for a list, the
// default weight, or Member for a partition.
func (k Knob) WithoutController() Value {
	switch k {
	case KnobPrecedence:
		return DefaultWeight
	case KnobPartition:
		return Member
	}
	return Inherit
}

// NoQuota is cpu.max without a quota, for any period.
const NoQuota Value = "max"

// MaxValue returns the value of KnobMax for a quota in every period. A negative quota is "max".
func MaxValue(quota, period unit.Micros) Value {
	if quota < 0 {
		return Value("max " + format(period))
	}
	return Value(format(quota) + " " + format(period))
}

// BurstValue returns the value of KnobBurst for a burst under the given period.
func BurstValue(burst, period unit.Micros) Value {
	return Value(format(burst) + " " + format(period))
}

func format(m unit.Micros) string { return strconv.FormatInt(int64(m), 10) }

// Pair returns the two numbers of v: quota (unit.NoLimit for "max") or burst, and the period, which is at least 1. The
// error is ErrMalformed.
func (v Value) Pair() (n, period unit.Micros, err error) {
	first, second, ok := strings.Cut(string(v), " ")
	if !ok {
		return 0, 0, fmt.Errorf("value %q, want two numbers: %w", string(v), ErrMalformed)
	}
	n = unit.NoLimit
	if first != "max" {
		if n, err = parseMicros(first); err != nil {
			return 0, 0, fmt.Errorf("value %q: %w", string(v), err)
		}
	}
	if period, err = parseMicros(second); err != nil {
		return 0, 0, fmt.Errorf("value %q: %w", string(v), err)
	}
	if period == 0 {
		return 0, 0, fmt.Errorf("value %q, period 0: %w", string(v), ErrMalformed)
	}
	return n, period, nil
}

// Rate returns the rate of a value of KnobMax or KnobBurst. It returns 0 if the value has no quota or is malformed.
func (v Value) Rate() unit.CPUs {
	quota, period, err := v.Pair()
	if err != nil || quota < 0 {
		return 0
	}
	return unit.Rate(quota, period)
}

// parseMicros parses a canonical decimal number, as the kernel prints it.
func parseMicros(text string) (unit.Micros, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || text[0] < '1' && text != "0" { // a sign or a leading zero
		return 0, fmt.Errorf("number %q: %w", text, ErrMalformed)
	}
	return unit.Micros(n), nil
}

// Same reports whether a and b mean the same setting of k. Equal values mean the same setting. Two bandwidth values do
// too if both numbers differ by the same factor, a power of two. The kernel itself scales a period that its timer
// cannot follow ("period too short, scaling up"), so the difference is no drift. Without a quota, and for a burst of 0,
// only the periods have to differ by such a factor.
//
// Lists are the same when they name the same CPUs or nodes. Shares of v1 are the same when the kernel limits them to
// the same number. Malformed values are the same only when equal.
func Same(k Knob, a, b Value) bool {
	if a == b {
		return true
	}
	if k.isList() || k == KnobExclusive {
		return sameLists(a, b)
	}
	if k == KnobPrecedence {
		return samePrecedence(a, b)
	}
	if k != KnobMax && k != KnobBurst {
		return false
	}
	an, ap, aerr := a.Pair()
	bn, bp, berr := b.Pair()
	if aerr != nil || berr != nil {
		return false
	}
	if ap > bp {
		an, ap, bn, bp = bn, bp, an, ap
	}
	scaled, ok := scale(an, ap, bp)
	return ok && scaled == bn
}

// ScaleTo returns v at another period, if the ratio of the periods is a power of two and the first number stays whole.
// It returns any other v unchanged: a caller can compare the period of the result.
func ScaleTo(v Value, period unit.Micros) Value {
	n, from, err := v.Pair()
	if err != nil {
		return v
	}
	scaled, ok := scale(n, from, period)
	if !ok {
		return v
	}
	return MaxValue(scaled, period) // a burst is never negative: the same text
}

// scale converts n from one period to another if their ratio is a power of two.
func scale(n, from, to unit.Micros) (unit.Micros, bool) {
	if from <= 0 || to <= 0 {
		return 0, false
	}
	for from < to && from <= to/2 && n <= math.MaxInt64/2 {
		from *= 2
		if n > 0 {
			n *= 2
		}
	}
	for from > to && from%2 == 0 && (n < 0 || n%2 == 0) {
		from /= 2
		if n > 0 {
			n /= 2
		}
	}
	return n, from == to
}
