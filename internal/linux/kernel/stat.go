package kernel

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/internal/value/cpuset"
	"github.com/berth-project/berth/internal/value/unit"
)

const (
	statFile = "proc/stat"

	// userHZ is the unit of /proc/stat, 1/100 s on every architecture Berth is built for, independent of CONFIG_HZ.
	userHZ = 100

	nanosPerStat = 1_000_000_000 / userHZ
)

// CPUBusy returns the busy time of MachineSpent.
func CPUBusy(root *hostfs.Root) (unit.CPUTime, error) {
	spent, err := MachineSpent(root)
	return spent.Busy, err
}

// MachineSpent returns the CPU time that the whole machine has spent since boot, from the first line of /proc/stat.
// Busy is user, nice, system, irq and softirq; the user time includes guest time. Idle includes I/O wait. Steal is what
// other machines on the same hypervisor spent. A CPU that went offline keeps its part of the sum, unlike in CPUsSpent.
// Idle can decrease: the kernel has another count of an offline CPU's idle time than of an online CPU's (get_idle_time
// in fs/proc/stat.c), and I/O wait is not exact (Documentation/filesystems/proc.rst). The resolution is 10 ms.
func MachineSpent(root *hostfs.Root) (unit.CPUSpent, error) {
	data, err := root.ReadFile(statFile)
	if err != nil {
		return unit.CPUSpent{}, fmt.Errorf("cpu time of the machine: %w", err)
	}
	line, _, _ := strings.Cut(string(data), "\n")
	spent, err := parseStat(line)
	if err != nil {
		return unit.CPUSpent{}, fmt.Errorf("cpu time of the machine, %s: %w", root.Join(statFile), err)
	}
	return spent, nil
}

// parseStat sums the columns of the line that starts with "cpu ".
func parseStat(line string) (unit.CPUSpent, error) {
	fields := strings.Fields(line)
	if len(fields) == 0 || fields[0] != "cpu" {
		return unit.CPUSpent{}, fmt.Errorf("line %q: %w", line, ErrMalformed)
	}
	return parseSpent(line, fields)
}

// parseSpent sums the columns of a line as busy, idle and steal time.
func parseSpent(line string, fields []string) (spent unit.CPUSpent, err error) {
	if len(fields) < 8 {
		return spent, fmt.Errorf("line %q: %w", line, ErrMalformed)
	}
	for i, text := range fields[1:min(len(fields), 9)] { // steal since Linux 2.6.11; user includes guest time
		sum := &spent.Busy
		switch i {
		case 3, 4: // idle, iowait
			sum = &spent.Idle
		case 7:
			sum = &spent.Steal
		}
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil || n > (math.MaxInt64-uint64(*sum))/nanosPerStat {
			return unit.CPUSpent{}, fmt.Errorf("column %d of line %q: %w", i+1, line, ErrMalformed)
		}
		*sum += unit.CPUTime(n) * nanosPerStat
	}
	return spent, nil
}

// CPUsSpent returns the busy, idle and steal time of each CPU since boot, indexed by CPU number: the lines "cpuN" of
// /proc/stat. A CPU that is offline has no line, and its times are 0. The columns are those of MachineSpent; the
// resolution of a busy CPU is 10 ms. A read takes longer on a machine with more CPUs and interrupts, because the kernel
// sums the interrupts for a later line (show_stat in fs/proc/stat.c).
func CPUsSpent(root *hostfs.Root) ([]unit.CPUSpent, error) {
	data, err := root.ReadFile(statFile)
	if err != nil {
		return nil, fmt.Errorf("cpu times: %w", err)
	}
	all, err := parseCPUs(string(data))
	if err != nil {
		return nil, fmt.Errorf("cpu times, %s: %w", root.Join(statFile), err)
	}
	return all, nil
}

// parseCPUs parses the lines "cpuN", which come first.
func parseCPUs(text string) ([]unit.CPUSpent, error) {
	var all []unit.CPUSpent
	for line := range strings.Lines(text) {
		number, ok := strings.CutPrefix(line, "cpu")
		if !ok {
			break
		}
		fields := strings.Fields(line)
		if strings.HasPrefix(number, " ") { // the sum of all CPUs
			continue
		}
		cpu, err := strconv.ParseUint(fields[0][len("cpu"):], 10, 32)
		if err != nil || cpu < uint64(len(all)) || cpu >= cpuset.Max {
			return nil, fmt.Errorf("line %q: %w", line, ErrMalformed)
		}
		spent, err := parseSpent(line, fields)
		if err != nil {
			return nil, err
		}
		all = append(all, make([]unit.CPUSpent, int(cpu)-len(all))...)
		all = append(all, spent)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("no line of a CPU: %w", ErrMalformed)
	}
	return all, nil
}

// SwitchesDone returns how often the CPUs of the machine have changed between tasks since boot: the line "ctxt" of
// /proc/stat.
func SwitchesDone(root *hostfs.Root) (uint64, error) {
	data, err := root.ReadFile(statFile)
	if err != nil {
		return 0, fmt.Errorf("context switches: %w", err)
	}
	for line := range strings.Lines(string(data)) {
		text, found := strings.CutPrefix(line, "ctxt ")
		if !found {
			continue
		}
		n, err := strconv.ParseUint(strings.TrimSpace(text), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("context switches, line %q of %s: %w", line, root.Join(statFile), ErrMalformed)
		}
		return n, nil
	}
	return 0, fmt.Errorf("context switches, no line ctxt in %s: %w", root.Join(statFile), ErrMalformed)
}
