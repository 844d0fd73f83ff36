package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/internal/linux/kernel"
)

// The files behind KnobPrecedence and KnobIdentity.
const (
	idleFile     = "cpu.idle"   // 0 or 1, since Linux 5.15, on both versions
	v2WeightFile = "cpu.weight" // 1 to 10000
	v1SharesFile = "cpu.shares" // 2 to 262144; the kernel limits other numbers to this range
)

// Idle is the KnobPrecedence value of a group that runs only when no sibling group needs the CPU. An idle group has no
// weight: the kernel forgets its weight, and refuses a new weight (EINVAL) until the group is no longer idle. The group
// then has the default weight (sched_group_set_idle and __sched_group_set_shares in kernel/sched/fair.c).
const Idle Value = "idle"

const (
	defaultShares Value = "shares 1024" // the default on v1

	weightWord = "weight" // v2
	sharesWord = "shares" // v1

	highestWeight               = 10_000
	lowestShares, highestShares = 2, 1 << 18
)

// DefaultWeight is the weight of a v2 group for which no weight was set.
const DefaultWeight Value = "weight 100"

// WeightValue returns the KnobPrecedence value on v2 for a cpu.weight, 1 to 10000.
func WeightValue(n uint64) Value { return Value(weightWord + " " + strconv.FormatUint(n, 10)) }

// SharesValue returns the KnobPrecedence value on v1 for cpu.shares.
func SharesValue(n uint64) Value { return Value(sharesWord + " " + strconv.FormatUint(n, 10)) }

// Weight returns the number of a KnobPrecedence value and its cgroup version: 1 for shares, 2 for a weight. For Idle
// both are 0. The error is ErrMalformed.
func (v Value) Weight() (n uint64, version int, err error) {
	if v == Idle {
		return 0, 0, nil
	}
	word, number, _ := strings.Cut(string(v), " ")
	n, err = strconv.ParseUint(number, 10, 64)
	if err == nil && strconv.FormatUint(n, 10) == number {
		switch word {
		case weightWord:
			if n >= 1 && n <= highestWeight {
				return n, 2, nil
			}
		case sharesWord:
			return n, 1, nil
		}
	}
	return 0, 0, fmt.Errorf("value %q, want %q, %q or %q: %w", string(v), Idle, weightWord+" N", sharesWord+" N", ErrMalformed)
}

// LeftByIdle reports whether v is the default that a formerly idle group has until it gets a weight.
func LeftByIdle(v Value) bool { return v == DefaultWeight || v == defaultShares }

// samePrecedence compares shares after the kernel's limits are applied.
func samePrecedence(a, b Value) bool {
	an, aversion, aerr := a.Weight()
	bn, bversion, berr := b.Weight()
	return aerr == nil && berr == nil && aversion == 1 && bversion == 1 && cutShares(an) == cutShares(bn)
}

func cutShares(n uint64) uint64 { return min(max(n, lowestShares), highestShares) }

// precedence reads KnobPrecedence. On a kernel without cpu.idle no group is idle.
func precedence(g *Group) (Value, error) {
	idle, err := g.number(idleFile)
	if err != nil && !errors.Is(err, ErrNoKnob) {
		return "", err
	}
	if idle == 1 {
		return Idle, nil
	}
	v1 := g.host.controllers[CPU].Version == 1
	file, value := v2WeightFile, WeightValue
	if v1 {
		file, value = v1SharesFile, SharesValue
	}
	n, err := g.number(file)
	if err != nil {
		return "", err
	}
	if n < 0 {
		return "", fmt.Errorf("%s of %q: %d: %w", file, g.path, n, ErrMalformed)
	}
	return value(uint64(n)), nil
}

// encodePrecedence is Encode for KnobPrecedence. A weight for an idle group needs two writes. The first write ends the
// idle state; the group then has the default weight until the second write.
func encodePrecedence(g *Group, v Value) (dir *hostfs.Dir, file, content string, err error) {
	n, version, err := v.Weight()
	if err != nil {
		return nil, "", "", fmt.Errorf("%s of %q: %w", KnobPrecedence, g.path, err)
	}
	if dir, err = g.Dir(CPU); err != nil {
		return nil, "", "", err
	}
	if v == Idle {
		return dir, idleFile, "1", nil
	}
	if has := g.host.controllers[CPU].Version; version != has {
		return nil, "", "", fmt.Errorf("%s of %q: value %q on cgroup v%d: %w", KnobPrecedence, g.path, string(v), has, ErrMalformed)
	}
	stands, err := precedence(g)
	switch {
	case err != nil:
		return nil, "", "", err
	case stands == Idle:
		return dir, idleFile, "0", nil
	case version == 1:
		return dir, v1SharesFile, strconv.FormatUint(n, 10), nil
	}
	return dir, v2WeightFile, strconv.FormatUint(n, 10), nil
}

// Probe reports whether groups of this host have the file behind Idle (for KnobPrecedence) or the file of KnobIdentity.
// It checks the groups right below the root of the cpu hierarchy, because the root itself has neither file. The result
// is unknown if no group there has the controller, for any other knob, and on error. Probe writes nothing.
func (h *Host) Probe(k Knob) (kernel.Support, error) {
	file, ok := map[Knob]string{KnobPrecedence: idleFile, KnobIdentity: string(KnobIdentity)}[k]
	if !ok {
		return kernel.Unknown, nil
	}
	hier, err := h.Hierarchy(CPU)
	if err != nil {
		return kernel.Unknown, err
	}
	entries, err := h.root.ReadDir(hier.Mount)
	if err != nil {
		return kernel.Unknown, fmt.Errorf("look for %s: %w", file, err)
	}
	weight := v2WeightFile
	if hier.Version == 1 {
		weight = v1SharesFile
	}
	support := kernel.Unknown
	for _, e := range entries {
		at := strings.TrimPrefix(hier.Mount, "/") + "/" + e.Name() + "/"
		if _, err := fs.Stat(h.root.FS(), at+file); e.IsDir() && err == nil {
			return kernel.Supported, nil
		}
		if _, err := fs.Stat(h.root.FS(), at+weight); e.IsDir() && err == nil {
			support = kernel.Unsupported
		}
	}
	return support, nil
}
