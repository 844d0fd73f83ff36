package top

import (
	"cmp"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/berth-project/berth/internal/agent/view"
	"github.com/berth-project/berth/internal/value/table"
)

// PlainCluster writes one frame of a cluster, as wide as w: the nodes with the most room first, then the pending pods.
func PlainCluster(w io.Writer, v *view.Cluster) error {
	page := table.PageFor(w)
	page.WriteString(clusterTitle(v) + "\n")
	rows := [][]string{{"NODE", "FREE", "CPUS", "WHOLE L3", "FRAGMENTATION", "PINNED", "PODS", "PINNABLE"}}
	for i := range v.Nodes {
		rows = append(rows, nodeCells(&v.Nodes[i]))
	}
	if err := table.Write(page, rows); err != nil {
		return err
	}
	if len(v.Pending) > 0 {
		page.WriteByte('\n')
		rows = [][]string{{"PENDING", "CPUS", "AGE", "WHY"}}
		for i := range v.Pending {
			rows = append(rows, podCells(&v.Pending[i], v.At))
		}
		if err := table.Write(page, rows); err != nil {
			return err
		}
	}
	if more := v.PendingTotal - len(v.Pending); more > 0 {
		fmt.Fprintf(page, "and %d more\n", more)
	}
	for _, p := range v.Problems {
		fmt.Fprintf(page, "problem: %s\n", clean(p))
	}
	if _, err := io.WriteString(w, page.String()); err != nil {
		return fmt.Errorf("write output: %w", err)
	}
	return nil
}

// clusterTitle summarizes a cluster in numbers.
func clusterTitle(v *view.Cluster) string {
	free, open := 0, 0
	for i := range v.Nodes {
		if v.Nodes[i].Obstacle == "" {
			free, open = free+v.Nodes[i].FreeCPUs, open+1
		}
	}
	return fmt.Sprintf("%s  nodes: %d  pinnable: %d  free CPUs: %d  pending pods: %d  %s",
		v.At.Format(time.TimeOnly), len(v.Nodes), open, free, v.PendingTotal, clean(v.Server))
}

// nodeCells returns the cells of a node. A node without a known machine has no CPU numbers.
func nodeCells(n *view.Node) []string {
	cells := []string{clean(n.Name), "-", "-", "-", "-", strconv.Itoa(n.Pinned), strconv.Itoa(n.Pods), clean(pinnable(n))}
	if n.CPUs > 0 {
		cells[1], cells[2] = strconv.Itoa(n.FreeCPUs), strconv.Itoa(n.CPUs)
		cells[3], cells[4] = fmt.Sprintf("%d of %d", n.FreeL3, n.L3), fmt.Sprintf("%d %%", n.Fragmentation)
	}
	return cells
}

// pinnable says whether the node pins pods, or why not, and what else keeps pods away.
func pinnable(n *view.Node) string {
	return strings.Join(append([]string{cmp.Or(n.Obstacle, "yes")}, n.Notes...), "; ")
}

func podCells(p *view.Pending, now time.Time) []string {
	cpus := "-"
	if p.CPUs > 0 {
		cpus = strconv.Itoa(p.CPUs)
	}
	return []string{clean(p.Namespace + "/" + p.Pod), cpus, age(now.Sub(p.Since)), clean(p.Why)}
}

// age formats a duration in its largest unit.
func age(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", max(0, d/time.Second))
	case d < time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < day:
		return fmt.Sprintf("%dh", d/time.Hour)
	default:
		return fmt.Sprintf("%dd", d/day)
	}
}
