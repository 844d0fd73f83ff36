package kernel

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/berth-project/berth/internal/hostfs"
	"github.com/berth-project/berth/internal/unit"
)

const (
	statFile = "proc/stat"

	// userHZ is the unit of /proc/stat, 1/100 s on every architecture Berth
	// is built for, whatever CONFIG_HZ is.
	userHZ = 100

	nanosPerStat = 1_000_000_000 / userHZ
)

// CPUBusy returns the CPU time spent by everything on the machine since boot,
// from the first line of /proc/stat: user, nice, system, irq and softirq.
// Guest time is part of user there already. Idle and I/O wait are not busy,
// and neither is steal, which other machines on the same hypervisor spent. The
// resolution is 10 ms.
func CPUBusy(root *hostfs.Root) (unit.CPUTime, error) {
	data, err := root.ReadFile(statFile)
	if err != nil {
		return 0, fmt.Errorf("cpu time of the machine: %w", err)
	}
	line, _, _ := strings.Cut(string(data), "\n")
	busy, err := parseStat(line)
	if err != nil {
		return 0, fmt.Errorf("cpu time of the machine, %s: %w", root.Join(statFile), err)
	}
	return busy, nil
}

// parseStat sums the busy columns of the line that starts with "cpu ".
func parseStat(line string) (unit.CPUTime, error) {
	fields := strings.Fields(line)
	if len(fields) < 8 || fields[0] != "cpu" {
		return 0, fmt.Errorf("line %q: %w", line, ErrMalformed)
	}
	var sum uint64
	for _, column := range []int{1, 2, 3, 6, 7} { // user nice system irq softirq
		n, err := strconv.ParseUint(fields[column], 10, 64)
		if err != nil || n > math.MaxInt64/nanosPerStat-sum {
			return 0, fmt.Errorf("column %d of line %q: %w", column, line, ErrMalformed)
		}
		sum += n
	}
	return unit.CPUTime(sum) * nanosPerStat, nil
}
