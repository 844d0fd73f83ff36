package kernel

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/berth-project/berth/internal/linux/hostfs"
)

// PagesTaken returns how many pages the machine has allocated since boot on the NUMA node of the requesting CPU, and on
// other nodes: numa_local and numa_other in /proc/vmstat. On a kernel without NUMA both are 0.
func PagesTaken(root *hostfs.Root) (local, other uint64, err error) {
	data, err := root.ReadFile("proc/vmstat")
	if err != nil {
		return 0, 0, fmt.Errorf("pages by node: %w", err)
	}
	for line := range strings.Lines(string(data)) {
		name, text, _ := strings.Cut(strings.TrimSpace(line), " ")
		var sum *uint64
		switch name {
		case "numa_local":
			sum = &local
		case "numa_other":
			sum = &other
		default:
			continue
		}
		if *sum, err = strconv.ParseUint(text, 10, 64); err != nil {
			return 0, 0, fmt.Errorf("pages by node, line %q of proc/vmstat: %w", line, ErrMalformed)
		}
	}
	return local, other, nil
}
