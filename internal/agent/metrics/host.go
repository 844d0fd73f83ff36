package metrics

import (
	"log/slog"
	"maps"
	"slices"

	"github.com/berth-project/berth/internal/capability/localize/locality"
	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/internal/linux/kernel"
	"github.com/berth-project/berth/internal/value/unit"
)

// Host is the CPU time of a host and the memory of its NUMA nodes. A field is zero if it cannot be read.
type Host struct {
	CPU    unit.CPUSpent
	Memory []NodeMemory
}

// NodeMemory is the memory of one NUMA node, in bytes.
type NodeMemory struct {
	Node  int
	Total int64
	// Available is the result of locality.NodeMemory.Available: the kernel has no MemAvailable of a node.
	Available int64
}

// ReadHost reads the CPU time of the host, and asks for the memory of its nodes. It leaves out a part that cannot be
// read. The function memory returns the memory by node.
func ReadHost(root *hostfs.Root, memory func() (map[int]locality.NodeMemory, error), log *slog.Logger) (h Host) {
	var err error
	if h.CPU, err = kernel.MachineSpent(root); err != nil {
		log.Debug("metrics without the CPU time of the host", "error", err)
	}
	nodes, err := memory()
	if err != nil {
		log.Debug("metrics without the memory of the host", "error", err)
	}
	for _, node := range slices.Sorted(maps.Keys(nodes)) {
		h.Memory = append(h.Memory, NodeMemory{Node: node, Total: nodes[node].Total, Available: nodes[node].Available()})
	}
	return h
}
