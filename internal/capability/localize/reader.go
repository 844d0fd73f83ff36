package localize

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/berth-project/berth/internal/capability"
	"github.com/berth-project/berth/internal/capability/localize/locality"
)

// reader prints the reports of localize for people.
type reader struct{}

// Node implements capability.Reader.
func (reader) Node(r capability.Reported) (capability.NodeView, error) {
	var n *Node
	if err := r.Node.Decode(keyNode, &n); err != nil || n == nil {
		return capability.NodeView{}, err
	}
	view := capability.NodeView{Sections: capability.Sections{keyNode: n}}
	if n.Off != "" {
		view.Lines = append(view.Lines, "memory locality: "+n.Off)
	}
	if n.Balancing {
		view.Lines = append(view.Lines, "memory locality: the kernel balances NUMA nodes as well (kernel.numa_balancing)")
	}
	return view, nil
}

// Reported returns what an agent reports about the memory of a workload, nil if it reports nothing.
func Reported(row capability.Sections) (m *Memory, err error) {
	err = row.Decode(name, &m)
	return m, err
}

// Workload implements capability.Reader: where the memory is, and what the last pass left.
func (reader) Workload(r capability.Reported) (capability.WorkloadView, error) {
	m, err := Reported(r.Row)
	if err != nil || m == nil {
		return capability.WorkloadView{}, err
	}
	return capability.WorkloadView{Sections: capability.Sections{keyNode: m}, Lines: m.lines()}, nil
}

// lines returns the explanation, one fact per line.
func (m *Memory) lines() []string {
	lines := []string{fmt.Sprintf("memory    %d %% on local NUMA nodes %s, %d pages elsewhere; %s; by %s",
		m.Ratio, cmp.Or(m.LocalNodes, "none"), m.RemotePages, cmp.Or(m.Phase, "no pass yet"), m.Policy)}
	var parts []string
	for _, node := range slices.Sorted(maps.Keys(m.BytesByNode)) {
		parts = append(parts, fmt.Sprintf("%s on node %s", mib(m.BytesByNode[node]), node))
	}
	if len(parts) > 0 {
		lines = append(lines, "memory    "+strings.Join(parts, ", "))
	}
	for _, one := range m.Moved {
		lines = append(lines, fmt.Sprintf("moved     from node %d to node %d: %s of base pages, %s of huge pages, %s of hugetlb",
			one.From, one.To, mib(one.Base), mib(one.Huge), mib(one.HugeTLB)))
	}
	if m.Rate > 0 {
		lines = append(lines, fmt.Sprintf("moved     %s a second, %d pauses, the longest call took %.1f ms", mib(int64(m.Rate)), m.Pauses, m.Longest*1000))
	}
	parts = nil
	for _, reason := range locality.Lefts() {
		if n := m.Left[reason]; n > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", reason, n))
		}
	}
	if len(parts) > 0 {
		lines = append(lines, "left      pages by reason: "+strings.Join(parts, ", "))
	}
	if m.Reason != "" {
		lines = append(lines, "pass      "+m.Reason)
	}
	if m.Wide {
		lines = append(lines, "mems      cpuset.mems stays wide: memory elsewhere has to move first, and the kernel would move it at once")
	}
	return lines
}

func mib(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }
