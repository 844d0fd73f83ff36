// Package unit has the quantities of CPU time and rate as separate types. So a quota cannot be passed where a period is
// meant, and a counter in nanoseconds cannot be compared with a counter in microseconds.
//
// The kernel uses microseconds of wall clock for quota, period and burst (Micros), and nanoseconds or microseconds of
// CPU time for its counters (CPUTime). It has no unit for a rate, which is a quota divided by its period (CPUs). Credit
// is CPU time that may be fractional and negative (CPUSeconds). Conversions are methods; there is no arithmetic between
// different types without a conversion. Count is for what has no type of its own.
package unit

import (
	"math"
	"strconv"
	"time"
)

// Micros is a count of microseconds, as in the kernel's bandwidth files: a quota, a period or a burst.
type Micros int64

// NoLimit is the quota of a group without a bandwidth limit: "max" in cpu.max, -1 in cpu.cfs_quota_us.
const NoLimit Micros = -1

// Duration returns m as a time.Duration. It saturates at the largest Duration.
func (m Micros) Duration() time.Duration {
	const most = Micros(math.MaxInt64 / int64(time.Microsecond))
	return time.Duration(min(max(m, -most), most)) * time.Microsecond
}

// Seconds returns m in seconds.
func (m Micros) Seconds() float64 { return float64(m) / 1e6 }

// CPUSeconds returns the CPU time that m microseconds of quota or burst grant.
func (m Micros) CPUSeconds() CPUSeconds { return CPUSeconds(m.Seconds()) }

// CPUs is a rate: CPU-seconds per second of wall clock, as in "a limit of 2.5 CPUs".
type CPUs float64

// Rate returns the rate that a quota in every period grants. It is +Inf for a negative quota, which the kernel uses for
// unlimited, and 0 for a period that is not positive.
func Rate(quota, period Micros) CPUs {
	switch {
	case quota < 0:
		return CPUs(math.Inf(1))
	case period <= 0:
		return 0
	}
	return CPUs(float64(quota) / float64(period))
}

// Quota returns the quota that grants the rate c in every period, rounded to the nearest microsecond. It is NoLimit for
// +Inf, and for a rate whose quota does not fit.
func (c CPUs) Quota(period Micros) Micros {
	q := math.Round(float64(c) * float64(period))
	if math.IsNaN(q) || q >= math.MaxInt64 {
		return NoLimit
	}
	return Micros(max(q, 0))
}

// Over returns the CPU time that the rate c grants in d of wall clock.
func (c CPUs) Over(d time.Duration) CPUSeconds { return CPUSeconds(float64(c) * d.Seconds()) }

// CPUTime is CPU time in nanoseconds, mostly a cumulative counter.
type CPUTime int64

// CPUTimeOfMicros converts a counter that the kernel has in microseconds. It saturates at the largest CPUTime.
func CPUTimeOfMicros(us uint64) CPUTime {
	if us > math.MaxInt64/1000 {
		return math.MaxInt64
	}
	return CPUTime(us) * 1000
}

// Seconds returns t in CPU-seconds.
func (t CPUTime) Seconds() CPUSeconds { return CPUSeconds(float64(t) / 1e9) }

// Duration returns t as a time.Duration, for printing.
func (t CPUTime) Duration() time.Duration { return time.Duration(t) }

// Since returns the CPU time used since the earlier reading of the same counter.
func (t CPUTime) Since(earlier CPUTime) CPUTime { return t - earlier }

// CPUSpent is how one CPU spent its time since boot.
type CPUSpent struct {
	// Busy is the time used by everything on the CPU, including interrupts.
	Busy CPUTime
	// Idle is the time without anything to run, including waits for a disk.
	Idle CPUTime
	// Steal is the time when the CPU had something to run and the hypervisor ran another machine.
	Steal CPUTime
}

// CPUSeconds is an amount of CPU time in seconds, the unit of credit. A negative amount is a debt.
type CPUSeconds float64

// Time returns s in whole nanoseconds, rounded to the nearest one.
func (s CPUSeconds) Time() CPUTime { return CPUTime(math.Round(float64(s) * 1e9)) }

// Per returns the mean rate of s over d, 0 when d is not positive.
func (s CPUSeconds) Per(d time.Duration) CPUs {
	if d <= 0 {
		return 0
	}
	return CPUs(float64(s) / d.Seconds())
}

// MilliCPUs returns n thousandths of a CPU, the unit in which Kubernetes counts.
func MilliCPUs(n int64) CPUs { return CPUs(float64(n) / 1000) }

// Count returns n with its noun, whose plural is regular.
func Count(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return strconv.Itoa(n) + " " + noun
}
