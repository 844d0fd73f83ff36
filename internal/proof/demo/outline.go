package demo

import (
	"fmt"
	"strings"

	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/value/unit"
)

// Outline describes a machine: a line with its totals, and a line per NUMA node with its CPUs, memory and L3 domains.
func Outline(t *topology.Topology) string {
	var b strings.Builder
	fmt.Fprintf(&b, "topology: %s, %s, %s, %s\n", unit.Count(len(t.Sockets), "socket"), unit.Count(len(t.Nodes), "NUMA node"),
		unit.Count(len(t.Cores), "core"), unit.Count(t.Online.Size(), "CPU"))
	for i, node := range t.Nodes {
		branch := "├─"
		if i == len(t.Nodes)-1 {
			branch = "└─"
		}
		fmt.Fprintf(&b, "%s node %d: CPUs %s, %.1f GiB", branch, node.ID, node.CPUs, float64(node.MemoryBytes)/(1<<30))
		for _, l3 := range t.L3 {
			if !l3.CPUs.Intersect(node.CPUs).IsEmpty() {
				fmt.Fprintf(&b, ", L3 %s", l3.CPUs)
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}
