// Package kernel describes the running kernel and its features: the boot id, the tick, the bandwidth slice, and the CPU
// time that the machine has spent.
//
// A feature is probed and never guessed from a version, because distributions move features between versions. A probe
// has three outcomes: supported, unsupported, and unknown if the probe could not be carried out (no permission, out of
// memory). The caller remembers only the first two, and probes an unknown feature again. Before is for what cannot be
// probed.
package kernel

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/internal/value/unit"
)

// ErrMalformed means that a kernel file does not have the documented format.
var ErrMalformed = errors.New("malformed")

const (
	bootIDFile  = "proc/sys/kernel/random/boot_id"
	sliceFile   = "proc/sys/kernel/sched_cfs_bandwidth_slice_us"
	releaseFile = "proc/sys/kernel/osrelease"

	// DefaultSlice is the kernel's default for sched_cfs_bandwidth_slice_us.
	DefaultSlice unit.Micros = 5000

	// slowestTick is the tick of CONFIG_HZ=100, the lowest frequency that Linux offers on the architectures Berth is
	// built for.
	slowestTick = 10 * time.Millisecond
)

// BootID returns the random id that the kernel chose at boot, from /proc/sys/kernel/random/boot_id.
func BootID(root *hostfs.Root) (string, error) {
	data, err := root.ReadFile(bootIDFile)
	if err != nil {
		return "", fmt.Errorf("boot id: %w", err)
	}
	id := strings.TrimSpace(string(data))
	if id == "" || strings.ContainsAny(id, " \t\n\x00") {
		return "", fmt.Errorf("boot id %q in %s: %w", id, root.Join(bootIDFile), ErrMalformed)
	}
	return id, nil
}

// Before reports whether the kernel's version is before major.minor, from /proc/sys/kernel/osrelease. Distributions
// move features to kernels of lower versions. So the result is only good where a wrong "before" costs little.
func Before(root *hostfs.Root, major, minor int) (bool, error) {
	data, err := root.ReadFile(releaseFile)
	if err != nil {
		return false, fmt.Errorf("version of the kernel: %w", err)
	}
	var has, part int
	if _, err := fmt.Sscanf(string(data), "%d.%d", &has, &part); err != nil {
		return false, fmt.Errorf("version of the kernel %q in %s: %w", strings.TrimSpace(string(data)), root.Join(releaseFile), ErrMalformed)
	}
	return has < major || has == major && part < minor, nil
}

// BandwidthSlice returns how much quota the kernel gives to one CPU at a time, from
// /proc/sys/kernel/sched_cfs_bandwidth_slice_us. A kernel without that file has DefaultSlice compiled in.
func BandwidthSlice(root *hostfs.Root) (unit.Micros, error) {
	data, err := root.ReadFile(sliceFile)
	if errors.Is(err, fs.ErrNotExist) {
		return DefaultSlice, nil
	}
	if err != nil {
		return 0, fmt.Errorf("bandwidth slice: %w", err)
	}
	text := strings.TrimSpace(string(data))
	us, err := strconv.ParseUint(text, 10, 32)
	if err != nil || us == 0 {
		return 0, fmt.Errorf("bandwidth slice %q in %s: %w", text, root.Join(sliceFile), ErrMalformed)
	}
	return unit.Micros(us), nil
}

// Tick returns the length of the scheduler tick (1/CONFIG_HZ) of the running kernel: the resolution of
// CLOCK_MONOTONIC_COARSE, which the tick drives. If the kernel does not report it, Tick returns 10 ms, the longest
// possible tick.
func Tick() time.Duration {
	var res unix.Timespec
	if err := unix.ClockGetres(unix.CLOCK_MONOTONIC_COARSE, &res); err != nil {
		return slowestTick
	}
	tick := time.Duration(res.Nano())
	if tick <= 0 || tick > slowestTick {
		return slowestTick
	}
	return tick
}

// Monotonic returns CLOCK_MONOTONIC: the time since boot without suspend, which is not affected by restarts of the
// program. It is 0 if the clock cannot be read, which does not happen on Linux.
func Monotonic() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return 0
	}
	return time.Duration(now.Nano())
}

// Boottime returns CLOCK_BOOTTIME: the time since boot with suspend, which is not affected by changes of the wall
// clock. It is 0 if the clock cannot be read, which does not happen on Linux.
func Boottime() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		return 0
	}
	return time.Duration(now.Nano())
}
