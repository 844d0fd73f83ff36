package pages

import (
	"errors"
	"fmt"
	"strings"

	"github.com/berth-project/berth/internal/cpuset"
)

// ErrRealTime says that a call which moves pages might never end: it waits until each CPU has run
// work of the kernel, which real-time processes without a limit never let run.
var ErrRealTime = errors.New("real-time processes may keep the kernel from moving pages for good")

// MayEnd is ErrRealTime where a call that moves pages may never end. The call waits for a kernel thread
// of every CPU (mm/swap.c, lru_add_drain_all), and a real-time thread that never sleeps keeps that one
// from running where sched_rt_runtime_us is -1: on any CPU, isolated or not. Since Linux 6.12 the fair
// server of a CPU keeps a part of it for ordinary threads, unless its runtime is 0.
func MayEnd(k Files) error {
	line := func(name string) string {
		data, err := k.ReadFile(name)
		if err != nil {
			return "" // The kernel has neither.
		}
		return strings.TrimSpace(string(data))
	}
	if line("proc/sys/kernel/sched_rt_runtime_us") != "-1" {
		return nil
	}
	online, err := cpuset.Parse(line("sys/devices/system/cpu/online"))
	if err != nil || online.IsEmpty() {
		return fmt.Errorf("%w: kernel.sched_rt_runtime_us is -1, and which CPUs are online is not known", ErrRealTime)
	}
	for cpu := range online.All() {
		name := fmt.Sprintf("sys/kernel/debug/sched/fair_server/cpu%d/runtime", cpu)
		if budget := line(name); budget == "" || budget == "0" {
			return fmt.Errorf("%w: kernel.sched_rt_runtime_us is -1, and /%s is %q", ErrRealTime, name, budget)
		}
	}
	return nil
}
