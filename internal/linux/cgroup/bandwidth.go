package cgroup

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/internal/value/unit"
)

// The files behind the knobs.
const (
	v2MaxFile    = "cpu.max"          // "QUOTA PERIOD", QUOTA "max" without limit
	v2BurstFile  = "cpu.max.burst"    // since Linux 5.14
	v1QuotaFile  = "cpu.cfs_quota_us" // -1 without limit
	v1PeriodFile = "cpu.cfs_period_us"
	v1BurstFile  = "cpu.cfs_burst_us" // since Linux 5.14
)

// periodReads bounds how often quota and period are read again after the kernel changed the period between the reads of
// the two v1 files.
const periodReads = 4

// Bandwidth is a group's CPU bandwidth limit in force.
type Bandwidth struct {
	// Quota is the CPU time granted in each period, or unit.NoLimit.
	Quota unit.Micros
	// Period is the length of a period, 1 ms to 1 s.
	Period unit.Micros
	// Burst is how much unused quota may accumulate; 0 without HasBurst.
	Burst unit.Micros
	// HasBurst is true if the kernel has the burst file.
	HasBurst bool
}

// Max returns the limit as a value of KnobMax.
func (b Bandwidth) Max() Value { return MaxValue(b.Quota, b.Period) }

// BurstValue returns the burst as a value of KnobBurst.
func (b Bandwidth) BurstValue() Value { return BurstValue(b.Burst, b.Period) }

// Limit returns the rate that the quota grants, +Inf without a quota.
func (b Bandwidth) Limit() unit.CPUs { return unit.Rate(b.Quota, b.Period) }

// Bandwidth reads quota, period and burst. A kernel without burst is not an error. The errors are those of Has, and
// ErrNoKnob for the root group.
func (g *Group) Bandwidth() (Bandwidth, error) {
	quota, period, err := g.max()
	if err != nil {
		return Bandwidth{}, err
	}
	b := Bandwidth{Quota: quota, Period: period, HasBurst: true}
	b.Burst, err = g.number(g.burstFile())
	if errors.Is(err, ErrNoKnob) {
		b.HasBurst, err = false, nil
	}
	if err != nil {
		return Bandwidth{}, err
	}
	return b, nil
}

// Stands reports whether the given quota is still in force, by reading one file. On v2 that file also contains the
// period, which must match too. On v1 Stands does not notice when another writer changes only the period. It does
// notice when the kernel doubles the period, because the kernel then doubles the quota as well. The errors are those of
// Bandwidth.
func (g *Group) Stands(quota, period unit.Micros) (bool, error) {
	if g.host.controllers[CPU].Version == 1 {
		found, err := g.number(v1QuotaFile)
		return max(found, unit.NoLimit) == quota, err
	}
	found, foundPeriod, err := g.max()
	return found == quota && foundPeriod == period, err
}

// Read returns the value of a knob in its file. For the list that the kernel really uses see InEffect. The errors are
// those of Bandwidth, ErrNoKnob also for a kernel without burst, and ErrUnset.
func (g *Group) Read(k Knob) (Value, error) {
	switch {
	case k.isList():
		return g.list(k)
	case k == KnobPrecedence:
		return precedence(g)
	case k.isNumber():
		return plainNumber(g, k)
	case k.isPartition():
		return partition(g, k)
	}
	quota, period, err := g.max()
	switch {
	case err != nil:
		return "", err
	case k == KnobMax:
		return MaxValue(quota, period), nil
	case k != KnobBurst:
		return "", fmt.Errorf("%w: knob %q", ErrNoKnob, string(k))
	}
	burst, err := g.number(g.burstFile())
	if err != nil {
		return "", err
	}
	return BurstValue(burst, period), nil
}

// Encode returns the one write that sets k to v: directory, file and content. A burst is written without its period,
// and so is a quota on v1, where the period has its own file. Encode then scales v to the period in force, or returns
// ErrPeriod if the ratio is not a power of two. A precedence may need two writes, one after the other: v is set when
// Read returns it. The directory belongs to the group: the caller must not close it.
func (g *Group) Encode(k Knob, v Value) (dir *hostfs.Dir, file, content string, err error) {
	switch {
	case k.isList():
		return g.encodeList(k, v)
	case k == KnobPrecedence:
		return encodePrecedence(g, v)
	case k.isNumber():
		return encodeNumber(g, k, v)
	case k.isPartition():
		return encodePartition(g, k, v)
	}
	return g.encodeBandwidth(k, v)
}

// InFile returns the name of a knob's file on this host, and the part of a value that the file contains. On v1 a limit
// and a burst have their own file names, and the file lacks the period. InFile reads nothing. It returns other knobs
// and values unchanged.
func (h *Host) InFile(k Knob, v Value) (file, text string) {
	n, _, err := v.Pair()
	if err == nil && h.controllers[CPU].Version == 1 {
		switch k {
		case KnobMax:
			return v1QuotaFile, format(n)
		case KnobBurst:
			return v1BurstFile, format(n)
		}
	}
	return string(k), string(v)
}

func (g *Group) encodeBandwidth(k Knob, v Value) (dir *hostfs.Dir, file, content string, err error) {
	n, period, err := v.Pair()
	if err != nil {
		return nil, "", "", fmt.Errorf("%s of %q: %w", k, g.path, err)
	}
	if dir, err = g.Dir(CPU); err != nil {
		return nil, "", "", err
	}
	v1 := g.host.controllers[CPU].Version == 1
	switch {
	case k == KnobMax && !v1:
		return dir, v2MaxFile, string(v), nil
	case k == KnobMax && n < 0:
		return dir, v1QuotaFile, "-1", nil
	case k == KnobMax:
		file = v1QuotaFile
	case k == KnobBurst && n < 0:
		return nil, "", "", fmt.Errorf("%s of %q: value %q without a number: %w", k, g.path, string(v), ErrMalformed)
	case k == KnobBurst && n == 0: // the same at every period
		return dir, g.burstFile(), "0", nil
	case k == KnobBurst:
		file = g.burstFile()
	default:
		return nil, "", "", fmt.Errorf("%w: knob %q", ErrNoKnob, string(k))
	}
	_, inForce, err := g.max()
	if err != nil {
		return nil, "", "", err
	}
	n, ok := scale(n, period, inForce)
	if !ok {
		return nil, "", "", fmt.Errorf("%s of %q: value %q: %w than the %d µs in force", k, g.path, string(v), ErrPeriod, inForce)
	}
	return dir, file, format(n), nil
}

func (g *Group) burstFile() string {
	if g.host.controllers[CPU].Version == 1 {
		return v1BurstFile
	}
	return v2BurstFile
}

func (g *Group) max() (quota, period unit.Micros, err error) {
	if g.host.controllers[CPU].Version == 1 {
		return g.maxV1()
	}
	data, err := g.read(CPU, v2MaxFile)
	if err != nil {
		return 0, 0, err
	}
	quota, period, err = Value(data).Pair()
	if err != nil {
		return 0, 0, fmt.Errorf("%s of %q: %w", v2MaxFile, g.path, err)
	}
	return quota, period, nil
}

// maxV1 reads the two files of v1 as one value. It reads the period before and after the quota, because the kernel
// doubles both together.
func (g *Group) maxV1() (quota, period unit.Micros, err error) {
	if period, err = g.number(v1PeriodFile); err != nil {
		return 0, 0, err
	}
	for range periodReads {
		if quota, err = g.number(v1QuotaFile); err != nil {
			return 0, 0, err
		}
		again, err := g.number(v1PeriodFile)
		if err != nil {
			return 0, 0, err
		}
		if again == period {
			break
		}
		period = again
	}
	if period <= 0 {
		return 0, 0, fmt.Errorf("%s of %q: period %d: %w", v1PeriodFile, g.path, period, ErrMalformed)
	}
	return max(quota, unit.NoLimit), period, nil
}

// number reads a file of the cpu controller that contains one number.
func (g *Group) number(name string) (unit.Micros, error) {
	data, err := g.read(CPU, name)
	if err != nil {
		return 0, err
	}
	if len(data) > 0 && data[0] == '-' { // v1 prints no limit as -1
		return unit.NoLimit, nil
	}
	n, ok := parseUint(data)
	if !ok {
		return 0, fmt.Errorf("%s of %q holds %q: %w", name, g.path, data, ErrMalformed)
	}
	return unit.Micros(n), nil
}

// plainNumber reads a knob whose file contains a number.
func plainNumber(g *Group, k Knob) (Value, error) {
	data, err := g.read(CPU, string(k))
	if err != nil {
		return "", err
	}
	v := Value(data)
	if _, err := strconv.Atoi(string(v)); err != nil {
		return "", fmt.Errorf("%s of %q holds %q: %w", k, g.path, data, ErrMalformed)
	}
	return v, nil
}

func encodeNumber(g *Group, k Knob, v Value) (dir *hostfs.Dir, file, content string, err error) {
	n, err := strconv.Atoi(string(v))
	if err != nil || strconv.Itoa(n) != string(v) {
		return nil, "", "", fmt.Errorf("%s of %q: value %q, want a number: %w", k, g.path, string(v), ErrMalformed)
	}
	dir, err = g.Dir(CPU)
	return dir, string(k), string(v), err
}
