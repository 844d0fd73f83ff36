package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/berth-project/berth/internal/agent/view"
	"github.com/berth-project/berth/internal/capability"
	"github.com/berth-project/berth/internal/value/table"
)

// views are the capabilities' texts for people about an agent's report.
type views struct {
	capabilities []capability.Info
	// nodes are by capability; workloads are by workload, then by capability.
	nodes     []capability.NodeView
	workloads [][]capability.WorkloadView
}

// readViews lets each capability read its part of a view. There are no workloads if the agent no longer runs.
func readViews(all []capability.Info, alive bool, seen *view.View) (views, error) {
	reported := capability.Reported{Alive: alive, Node: seen.Node, Decoded: map[string]any{}}
	v, err := readNode(all, reported)
	if err != nil || !alive {
		return v, err
	}
	for _, w := range seen.Statuses() {
		reported.Workload, reported.Row = w.Workload, w.Sections
		one, err := readWorkload(all, reported)
		if err != nil {
			return v, err
		}
		v.workloads = append(v.workloads, one)
	}
	return v, nil
}

// readNode lets each capability read its report about the node.
func readNode(all []capability.Info, r capability.Reported) (views, error) {
	v := views{capabilities: all}
	for _, info := range all {
		var node capability.NodeView
		var err error
		if info.Reader != nil {
			node, err = info.Reader.Node(r)
		}
		if err != nil {
			return v, fmt.Errorf("report of %s: %w", info.Name, err)
		}
		v.nodes = append(v.nodes, node)
	}
	return v, nil
}

func readWorkload(all []capability.Info, r capability.Reported) ([]capability.WorkloadView, error) {
	one := make([]capability.WorkloadView, len(all))
	for i, info := range all {
		if info.Reader == nil {
			continue
		}
		var err error
		if one[i], err = info.Reader.Workload(r); err != nil {
			return nil, fmt.Errorf("report of %s: workload %s: %w", info.Name, r.Workload.Name, err)
		}
	}
	return one, nil
}

// headline returns what to append to the line about the agent.
func (v views) headline() string {
	var b strings.Builder
	for _, n := range v.nodes {
		if n.Headline != "" {
			b.WriteString("; " + n.Headline)
		}
	}
	return b.String()
}

// printNode prints what is true of the node.
func (v views) printNode(b *table.Page) {
	for _, n := range v.nodes {
		for _, line := range n.Lines {
			b.Line("%s", line)
		}
		printRows(b, n.Table)
	}
}

// table returns the workloads, with the columns of each capability.
func (v views) table(workloads []view.Status) [][]string {
	heading := []string{"WORKLOAD", "STATE", "POLICY"}
	for _, info := range v.capabilities {
		heading = append(heading, info.Columns...)
	}
	rows := [][]string{append(heading, "SINCE", "REASON")}
	for i, w := range workloads {
		row, reason := []string{w.Name, string(w.State), w.Policy}, w.Reason
		for k, info := range v.capabilities {
			said := v.workloads[i][k]
			cells := said.Cells
			if cells == nil {
				cells = slices.Repeat([]string{"-"}, len(info.Columns))
			}
			row, reason = append(row, cells...), cmp.Or(reason, said.Reason)
		}
		rows = append(rows, append(row, w.Since.Format(time.RFC3339), reason))
	}
	return rows
}
