package metrics

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/internal/linux/kernel"
	"github.com/berth-project/berth/internal/linux/pages"
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
	// Available is the memory that is free, or that holds clean file pages not used lately. No node has MemAvailable.
	Available int64
}

// ReadHost reads the CPU time and the memory of the host, without a part that cannot be read.
func ReadHost(root *hostfs.Root, log *slog.Logger) (h Host) {
	var err error
	if h.CPU, err = kernel.MachineSpent(root); err != nil {
		log.Debug("metrics without the CPU time of the host", "error", err)
	}
	if h.Memory, err = memoryNow(root); err != nil {
		log.Debug("metrics without the memory of the host", "error", err)
	}
	return h
}

// memoryNow returns the memory of each NUMA node, in the order of the nodes.
func memoryNow(root *hostfs.Root) ([]NodeMemory, error) {
	zones, err := pages.ReadZones(root)
	if err != nil {
		return nil, fmt.Errorf("NUMA nodes: %w", err)
	}
	var all []NodeMemory
	for _, node := range slices.Sorted(maps.Keys(zones)) {
		m, err := pages.ReadNode(root, node, zones[node])
		if errors.Is(err, pages.ErrNode) {
			continue // the node has no memory now
		}
		if err != nil {
			return nil, fmt.Errorf("NUMA nodes: %w", err)
		}
		all = append(all, NodeMemory{Node: node, Total: m.Total, Available: m.Free + max(0, m.InactiveFile-m.Dirty)})
	}
	return all, nil
}
