package offline

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/berth-project/berth/internal/capability"
	"github.com/berth-project/berth/internal/capability/isolate"
	"github.com/berth-project/berth/internal/linux/kernel"
	"github.com/berth-project/berth/internal/value/unit"
)

// reader prints the report of isolate for people.
type reader struct{}

// Node implements capability.Reader: the boundary, and the reason for it.
func (reader) Node(r capability.Reported) (capability.NodeView, error) {
	var n *Node
	if !r.Alive { // the boundary ended with the agent, or has no effect for another agent
		return capability.NodeView{}, nil
	}
	if err := r.Node.Decode(keyNode, &n); err != nil || n == nil {
		return capability.NodeView{}, err
	}
	view := capability.NodeView{Sections: capability.Sections{keyNode: n}}
	view.Lines = append(view.Lines, n.Support.line(n.cores(), n.Idle))
	if n.Cores != "" {
		view.Lines = append(view.Lines, n.line())
	}
	if strings.HasPrefix(n.Reason, string(isolate.Slowed)) {
		view.Lines = append(view.Lines, "waits: "+n.Reason)
	}
	if n.Reserve != nil {
		view.Lines = append(view.Lines, n.Reserve.line())
	}
	if s := n.System; s != nil && s.Use != nil {
		view.Lines = append(view.Lines, fmt.Sprintf("system: processes outside of pods and workloads use %.1f CPUs", *s.Use))
	} else if s != nil {
		view.Lines = append(view.Lines, "system: what processes outside of pods and workloads use is not known: "+s.Unknown)
	}
	if n.CoreScheduling != nil {
		view.Lines = append(view.Lines, n.CoreScheduling.Line())
	}
	if n.Overlap != "" {
		line := "overlap: the cores of CPUs " + n.Overlap + " run online and offline groups"
		if n.Bound != "" {
			line += "; " + n.Bound
		}
		view.Lines = append(view.Lines, line)
	}
	return view, nil
}

// cores says how offline work has cores.
func (n *Node) cores() string {
	switch {
	case n.Limit != "":
		return "limited: " + n.Limit
	case n.Cores != "":
		return "cores by " + n.Cores
	case n.Support.Cores.Support == kernel.Unsupported:
		return "cpuset " + n.Support.Cores.String()
	}
	return "no boundary"
}

// line describes the boundary.
func (n *Node) line() string {
	if n.Cores == byQuota {
		return fmt.Sprintf("boundary: offline work uses at most %.4g CPUs, online work %.1f (needs %s): %s", n.Quota, n.Use, unit.Count(n.Need, "core"), n.Reason)
	}
	since := ""
	if n.Since != nil {
		since = " since " + n.Since.Format("15:04:05")
	}
	return fmt.Sprintf("boundary: online %s (use %.1f CPUs, need %s), offline %s (low %s)%s: %s",
		cmp.Or(n.Online, "none"), n.Use, unit.Count(n.Need, "core"), cmp.Or(n.Offline, "none"), unit.Count(n.Low, "core"), since, n.Moved)
}

// Workload implements capability.Reader. The reader of place prints the CPUs of a workload, and the reason.
func (reader) Workload(r capability.Reported) (capability.WorkloadView, error) {
	var w Workload
	if err := r.Row.Decode(name, &w); err != nil || w.Precedence == nil {
		return capability.WorkloadView{}, err
	}
	lines := w.Precedence.lines()
	if w.CoreScheduling != "" {
		lines = append(lines, w.CoreScheduling)
	}
	return capability.WorkloadView{Sections: capability.Sections{name: w}, Lines: lines}, nil
}

// lines returns the lines of explain.
func (p Precedence) lines() []string {
	var lines []string
	if p.Undone == "" || p.Reason != "" || p.Value != "" {
		lines = append(lines, p.line())
	}
	if p.Undone != "" {
		lines = append(lines, "not done  "+p.Undone+"; asked for by "+p.Source)
	}
	return lines
}

func (p Precedence) line() string {
	switch {
	case p.Reason != "":
		return fmt.Sprintf("precedence as without Berth: %s; asked for by %s", p.Reason, p.Source)
	case p.Value == "":
		return "precedence as without Berth, by " + p.Source
	case p.Value == isolate.Idle:
		return fmt.Sprintf("precedence idle: %s runs when no group beside it wants the CPU, by %s", p.Group, p.Source)
	}
	return fmt.Sprintf("precedence groupIdentity %s of %s, by %s", p.Value, p.Group, p.Source)
}
