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

// Limit is what the real-time threads of a CPU may take: Runtime of each Period, both in microseconds, as
// kernel.sched_rt_runtime_us and kernel.sched_rt_period_us have them.
type Limit struct{ Runtime, Period string }

// LimitOf returns the limit that a host has. What cannot be read is "".
func LimitOf(fsys fs.FS) Limit {
	read := func(file string) string {
		text, _ := fs.ReadFile(fsys, local(file)) // one that is not known counts as none
		return strings.TrimSpace(string(text))
	}
	return Limit{Runtime: read(rtRuntime), Period: read(rtPeriod)}
}

// With is the limit once a file has a value. A file that is none of the two changes nothing.
func (l Limit) With(file, value string) Limit {
	switch file {
	case rtRuntime:
		l.Runtime = value
	case rtPeriod:
		l.Period = value
	}
	return l
}

// Tightens says whether a limit leaves real-time threads a smaller part of a CPU than another one.
func (l Limit) Tightens(other Limit) bool { return l.share() < other.share() }

// share is the part of a CPU that real-time threads may take. A runtime of 0 is as none: the kernel stops nobody who
// would never be let go on (sched_rt_runtime_exceeded in kernel/sched/rt.c). An unknown limit counts as none, too.
func (l Limit) share() float64 {
	runtime, err := strconv.ParseInt(l.Runtime, 10, 64)
	period, errPeriod := strconv.ParseInt(l.Period, 10, 64)
	if err != nil || errPeriod != nil || runtime <= 0 || period <= 0 {
		return 1
	}
	return min(1, float64(runtime)/float64(period))
}

// First is the file that is written first on the way from another limit: the kernel takes no runtime that is longer
// than the period.
func (l Limit) First(from Limit) string {
	runtime, err := strconv.ParseInt(l.Runtime, 10, 64)
	period, errPeriod := strconv.ParseInt(from.Period, 10, 64)
	if err == nil && errPeriod == nil && runtime > period {
		return rtPeriod
	}
	return rtRuntime
}
