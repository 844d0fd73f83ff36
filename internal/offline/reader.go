package offline

import (
	"fmt"

	"github.com/berth-project/berth/internal/capability"
	"github.com/berth-project/berth/internal/cgroup"
)

// reader prints for people what isolate reported.
type reader struct{}

// Node implements capability.Reader.
func (reader) Node(r capability.Reported) (capability.NodeView, error) {
	var n Node
	if _, there := r.Node[keyNode]; !there {
		return capability.NodeView{}, nil
	}
	if err := r.Node.Decode(keyNode, &n); err != nil {
		return capability.NodeView{}, err
	}
	return capability.NodeView{
		Sections: capability.Sections{keyNode: n},
		Lines:    []string{"isolation: " + n.Support.line(n.Idle)},
	}, nil
}

// Workload implements capability.Reader.
func (reader) Workload(r capability.Reported) (capability.WorkloadView, error) {
	var w Workload
	if err := r.Row.Decode(name, &w); err != nil || w.Precedence == nil {
		return capability.WorkloadView{}, err
	}
	return capability.WorkloadView{
		Sections: capability.Sections{name: w},
		Lines:    w.Precedence.lines(),
	}, nil
}

// lines are what explain says of it.
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
	case p.Value == string(cgroup.Idle):
		return fmt.Sprintf("precedence idle: %s runs when no group beside it wants the CPU, by %s", p.Group, p.Source)
	}
	return fmt.Sprintf("precedence groupIdentity %s of %s, by %s", p.Value, p.Group, p.Source)
}
