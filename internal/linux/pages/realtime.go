package pages

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/berth-project/berth/internal/value/cpuset"
)

// ErrRealTime says that a call that moves pages might never return. The call waits until each CPU has run work of the
// kernel, and real-time processes without a limit can prevent this work forever.
var ErrRealTime = errors.New("real-time processes may keep the kernel from moving pages for good")

// MayEnd returns ErrRealTime if a call that moves pages may never return. The call waits for a kernel thread of every
// CPU (mm/swap.c, lru_add_drain_all), isolated or not. A real-time thread that never sleeps keeps this kernel thread
// from running. On Linux 6.12 and newer, the fair server of a CPU prevents that, unless its runtime is 0. On older
// kernels, sched_rt_runtime_us prevents it if it is less than the period. MayEnd treats an unknown fair server budget
// as no budget if the administrator removed the limit of real-time threads.
func MayEnd(k Files) error {
	online, err := cpuset.Parse(line(k, "sys/devices/system/cpu/online"))
	if err == nil && online.IsEmpty() {
		err = errors.New("none")
	}
	if err != nil {
		return fmt.Errorf("%w: CPUs that are online: %w", ErrRealTime, err)
	}
	hidden := false
	for cpu := range online.All() {
		name := fmt.Sprintf("sys/kernel/debug/sched/fair_server/cpu%d/runtime", cpu)
		switch line(k, name) {
		case "0":
			return fmt.Errorf("%w: /%s is 0", ErrRealTime, name)
		case "":
			hidden = true
		}
	}
	switch {
	case !hidden:
		return nil
	case hasServers(k):
		return limited(k)
	}
	return throttled(k)
}

// hasServers reports whether the kernel has fair servers, by its version. Only debugfs shows fair servers, and
// containers and lockdown hide debugfs.
func hasServers(k Files) bool {
	var major, minor int
	_, err := fmt.Sscanf(line(k, "proc/sys/kernel/osrelease"), "%d.%d", &major, &minor)
	return err == nil && (major > 6 || major == 6 && minor >= 12)
}

// limited returns nil if real-time threads have a limit, as they do by default. MayEnd then assumes that the hidden
// fair servers have their default budget. On a kernel with fair servers, the default limit may be the whole period. A
// runtime of 0 is no limit.
func limited(k Files) error {
	const runtime = "proc/sys/kernel/sched_rt_runtime_us"
	has, err := strconv.Atoi(line(k, runtime))
	if err != nil || has <= 0 {
		return fmt.Errorf("%w: kernel.sched_rt_runtime_us is %q, and the runtimes of fair servers are hidden", ErrRealTime, line(k, runtime))
	}
	return nil
}

// throttled returns nil if sched_rt_runtime_us leaves a part of each period to threads that are not real-time. With a
// runtime of 0, the kernel stops no real-time thread (sched_rt_runtime_exceeded in kernel/sched/rt.c).
func throttled(k Files) error {
	const runtime, period = "proc/sys/kernel/sched_rt_runtime_us", "proc/sys/kernel/sched_rt_period_us"
	has, err := strconv.Atoi(line(k, runtime))
	of, periodErr := strconv.Atoi(line(k, period))
	if err != nil || periodErr != nil || has <= 0 || has >= of {
		return fmt.Errorf("%w: kernel.sched_rt_runtime_us is %q, of a period of %q", ErrRealTime, line(k, runtime), line(k, period))
	}
	return nil
}

// line returns the text of a one-line file, or "" if the file cannot be read.
func line(k Files, name string) string {
	data, err := k.ReadFile(name)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}
