package knob

import (
	"io/fs"
	"strconv"
	"strings"
)

// The sysctls that limit real-time threads.
const (
	rtRuntime = sysctls + "/kernel/sched_rt_runtime_us"
	rtPeriod  = sysctls + "/kernel/sched_rt_period_us"
)

// Limit is the CPU time that the real-time threads of a CPU may use: Runtime of each Period. Both are in microseconds,
// as in kernel.sched_rt_runtime_us and kernel.sched_rt_period_us.
type Limit struct{ Runtime, Period string }

// LimitOf returns the limit of a host. A value that cannot be read is "".
func LimitOf(fsys fs.FS) Limit {
	read := func(file string) string {
		text, _ := fs.ReadFile(fsys, local(file)) // an unknown value counts as no limit
		return strings.TrimSpace(string(text))
	}
	return Limit{Runtime: read(rtRuntime), Period: read(rtPeriod)}
}

// With returns the limit after a value is written to a file. Any other file changes nothing.
func (l Limit) With(file, value string) Limit {
	switch file {
	case rtRuntime:
		l.Runtime = value
	case rtPeriod:
		l.Period = value
	}
	return l
}

// Tightens reports whether l leaves real-time threads a smaller part of a CPU than other.
func (l Limit) Tightens(other Limit) bool { return l.share() < other.share() }

// share returns the part of a CPU that real-time threads may use. A runtime of 0 is no limit: the kernel never stops a
// thread that it would never let continue (sched_rt_runtime_exceeded in kernel/sched/rt.c). An unknown limit is also no
// limit.
func (l Limit) share() float64 {
	runtime, err := strconv.ParseInt(l.Runtime, 10, 64)
	period, errPeriod := strconv.ParseInt(l.Period, 10, 64)
	if err != nil || errPeriod != nil || runtime <= 0 || period <= 0 {
		return 1
	}
	return min(1, float64(runtime)/float64(period))
}

// First returns the file that must be written first in a change from another limit. The kernel refuses a runtime that
// is longer than the period.
func (l Limit) First(from Limit) string {
	runtime, err := strconv.ParseInt(l.Runtime, 10, 64)
	period, errPeriod := strconv.ParseInt(from.Period, 10, 64)
	if err == nil && errPeriod == nil && runtime > period {
		return rtPeriod
	}
	return rtRuntime
}
