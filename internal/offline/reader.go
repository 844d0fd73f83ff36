package offline

import (
	"cmp"
	"fmt"

	"github.com/berth-project/berth/internal/capability"
)

// reader prints for people what isolate reported.
type reader struct{}

// Node implements capability.Reader: where the boundary is, and why.
func (reader) Node(r capability.Reported) (capability.NodeView, error) {
	var n *Node
	if !r.Alive { // the boundary ended with the agent, or counts for no other one
		return capability.NodeView{}, nil
	}
	if err := r.Node.Decode(keyNode, &n); err != nil || n == nil {
		return capability.NodeView{}, err
	}
	view := capability.NodeView{Sections: capability.Sections{keyNode: n}}
	switch {
	case n.Limit != "":
		view.Lines = append(view.Lines, "isolation: limited: "+n.Limit)
	case n.Cores != "":
		view.Lines = append(view.Lines, "isolation: cores by "+n.Cores, n.line())
	}
	if n.Overlap != "" {
		view.Lines = append(view.Lines, "overlap: the cores of CPUs "+n.Overlap+" run online and offline groups")
	}
	return view, nil
}

// line says where the boundary is.
func (n *Node) line() string {
	since := ""
	if n.Since != nil {
		since = " since " + n.Since.Format("15:04:05")
	}
	return fmt.Sprintf("boundary: online %s (use %.1f CPUs, need %s), offline %s (low %s)%s: %s",
		cmp.Or(n.Online, "none"), n.Use, inCores(n.Need), cmp.Or(n.Offline, "none"), inCores(n.Low), since, n.Moved)
}

func inCores(n int) string {
	if n == 1 {
		return "1 core"
	}
	return fmt.Sprintf("%d cores", n)
}

// Workload implements capability.Reader. Which CPUs a workload has, and why, is said by place.
func (reader) Workload(capability.Reported) (capability.WorkloadView, error) {
	return capability.WorkloadView{}, nil
}
