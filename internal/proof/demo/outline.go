package demo

import (
	"fmt"
	"strings"

	"github.com/berth-project/berth/internal/linux/topology"
)

// Outline describes a machine: a line with its totals, and a line per NUMA node with its CPUs, memory and L3 domains.
func Outline(t *topology.Topology) string {
	var b strings.Builder
	fmt.Fprintf(&b, "topology: %s, %s, %s, %s\n", count(len(t.Sockets), "socket"), count(len(t.Nodes), "NUMA node"),
		count(len(t.Cores), "core"), count(t.Online.Size(), "CPU"))
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

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
