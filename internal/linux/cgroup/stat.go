package cgroup

import (
	"bytes"
	"fmt"
	"math"

	"github.com/berth-project/berth/internal/value/unit"
)

const (
	statFile    = "cpu.stat"
	v1UsageFile = "cpuacct.usage" // nanoseconds
)

// Throttling is the cumulative bandwidth counters of a group.
type Throttling struct {
	// Periods counts the periods in which the group was active under a quota.
	Periods uint64
	// Throttled counts the periods in which the group ran out of quota.
	Throttled uint64
	// Time is how long the group's CPUs were throttled, summed over the CPUs.
	Time unit.CPUTime
	// Bursts counts the periods that used accumulated quota, since Linux 5.14.
	Bursts uint64
	// BurstTime is the CPU time used above the quota in these periods.
	BurstTime unit.CPUTime
}

// Usage returns the CPU time that the group and all groups below it have used: usage_usec of cpu.stat on v2,
// cpuacct.usage on v1. Once the file is open it allocates nothing. The errors are those of Has.
func (g *Group) Usage() (unit.CPUTime, error) {
	if g.host.controllers[CPUAcct].Version == 1 {
		return g.usageV1()
	}
	data, err := g.read(CPUAcct, statFile)
	if err != nil {
		return 0, err
	}
	s, ok := parseStat(data)
	if !ok || !s.hasUsage {
		return 0, g.malformed(statFile)
	}
	return s.usage, nil
}

func (g *Group) usageV1() (unit.CPUTime, error) {
	if g.usage == nil {
		f, err := g.keep(CPUAcct, v1UsageFile)
		if err != nil {
			return 0, err
		}
		g.usage = f
	}
	data, err := g.usage.Read(g.digits[:])
	if err != nil {
		return 0, g.missing(CPUAcct, err)
	}
	n, ok := parseUint(trimmed(data))
	if !ok || n > math.MaxInt64 {
		return 0, g.malformed(v1UsageFile)
	}
	return unit.CPUTime(n), nil
}

// Throttling returns the bandwidth counters, from cpu.stat. Once the file is open it allocates nothing. The errors are
// those of Has, and ErrNoKnob for a group without bandwidth control.
func (g *Group) Throttling() (Throttling, error) {
	data, err := g.read(CPU, statFile)
	if err != nil {
		return Throttling{}, err
	}
	s, ok := parseStat(data)
	if !ok {
		return Throttling{}, g.malformed(statFile)
	}
	if !s.hasPeriods {
		if why := g.Has(CPU); why != nil {
			return Throttling{}, why
		}
		return Throttling{}, fmt.Errorf("%w: nr_periods in %s of %q", ErrNoKnob, statFile, g.path)
	}
	return s.Throttling, nil
}

func (g *Group) malformed(name string) error {
	return fmt.Errorf("%s of %q: %w", name, g.path, ErrMalformed)
}

// stat is the part of cpu.stat that Berth uses.
type stat struct {
	Throttling
	usage                unit.CPUTime
	hasUsage, hasPeriods bool
}

// parseStat parses the lines "name number" of cpu.stat of both versions, and ignores unknown names.
func parseStat(data []byte) (s stat, ok bool) {
	for len(data) > 0 {
		var line []byte
		line, data, _ = bytes.Cut(data, []byte{'\n'})
		name, value, found := bytes.Cut(line, []byte{' '})
		if !found {
			return stat{}, false
		}
		n, isNumber := parseUint(value)
		if !isNumber {
			return stat{}, false
		}
		s.set(name, n)
	}
	return s, true
}

func (s *stat) set(name []byte, n uint64) {
	switch string(name) { // does not allocate
	case "usage_usec":
		s.usage, s.hasUsage = unit.CPUTimeOfMicros(n), true
	case "nr_periods":
		s.Periods, s.hasPeriods = n, true
	case "nr_throttled":
		s.Throttled = n
	case "throttled_usec":
		s.Time = unit.CPUTimeOfMicros(n)
	case "throttled_time":
		s.Time = nanos(n)
	case "nr_bursts":
		s.Bursts = n
	case "burst_usec":
		s.BurstTime = unit.CPUTimeOfMicros(n)
	case "burst_time":
		s.BurstTime = nanos(n)
	}
}

func nanos(n uint64) unit.CPUTime { return unit.CPUTime(min(n, math.MaxInt64)) }

// parseUint parses decimal digits without allocating.
func parseUint(text []byte) (n uint64, ok bool) {
	if len(text) == 0 {
		return 0, false
	}
	for _, c := range text {
		if c < '0' || c > '9' || n > (math.MaxUint64-uint64(c-'0'))/10 {
			return 0, false
		}
		n = n*10 + uint64(c-'0')
	}
	return n, true
}
