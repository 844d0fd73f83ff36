package pages

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/berth-project/berth/internal/cpuset"
)

// ErrRealTime says that a call which moves pages might never end: it waits until each CPU has run
// work of the kernel, which real-time processes without a limit never let run.
var ErrRealTime = errors.New("real-time processes may keep the kernel from moving pages for good")

// MayEnd is ErrRealTime where a call that moves pages may never end. The call waits for a kernel thread
// of every CPU (mm/swap.c, lru_add_drain_all), isolated or not, and a real-time thread that never sleeps
// keeps that one from running. From Linux 6.12 on the fair server of a CPU prevents that, unless its runtime
// is 0. Before, sched_rt_runtime_us does, if it is less than the period. An unknown budget counts as none
// where the administrator took the limit of real-time threads away.
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

// hasServers says that the kernel has fair servers, by its version: only debugfs shows them, which
// containers and lockdown hide.
func hasServers(k Files) bool {
	var major, minor int
	_, err := fmt.Sscanf(line(k, "proc/sys/kernel/osrelease"), "%d.%d", &major, &minor)
	return err == nil && (major > 6 || major == 6 && minor >= 12)
}

// limited is nil where real-time threads have some limit, as they do by default. Hidden servers count as having the
// budget that they came with then. The limit itself may be the whole period by default on a kernel with servers. 0 is
// as none.
func limited(k Files) error {
	const runtime = "proc/sys/kernel/sched_rt_runtime_us"
	has, err := strconv.Atoi(line(k, runtime))
	if err != nil || has <= 0 {
		return fmt.Errorf("%w: kernel.sched_rt_runtime_us is %q, and the runtimes of fair servers are hidden", ErrRealTime, line(k, runtime))
	}
	return nil
}

// throttled is nil where real-time threads leave a part of each period to others, as far as
// sched_rt_runtime_us says so. With 0 the kernel stops none of them (sched_rt_runtime_exceeded in kernel/sched/rt.c).
func throttled(k Files) error {
	const runtime, period = "proc/sys/kernel/sched_rt_runtime_us", "proc/sys/kernel/sched_rt_period_us"
	has, err := strconv.Atoi(line(k, runtime))
	of, periodErr := strconv.Atoi(line(k, period))
	if err != nil || periodErr != nil || has <= 0 || has >= of {
		return fmt.Errorf("%w: kernel.sched_rt_runtime_us is %q, of a period of %q", ErrRealTime, line(k, runtime), line(k, period))
	}
	return nil
}

// line is the one line of a file, "" where there is none to read.
func line(k Files, name string) string {
	data, err := k.ReadFile(name)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}
