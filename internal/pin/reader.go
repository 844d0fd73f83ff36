package pin

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/berth-project/berth/internal/capability"
)

// placeReader prints for people what place reported.
type placeReader struct{}

// Node implements capability.Reader. It says which container has which CPUs, once one
// has exclusive CPUs or was refused, and nothing of an agent that runs no more.
func (placeReader) Node(r capability.Reported) (capability.NodeView, error) {
	c, err := saidCPUs(r)
	if err != nil || c == nil {
		return capability.NodeView{}, err
	}
	view := capability.NodeView{Sections: capability.Sections{keyCPUs: c}}
	if c.Unpinnable != "" {
		view.Lines = append(view.Lines, "CPU sets: left alone: "+c.Unpinnable)
	}
	refused := slices.ContainsFunc(c.Containers, func(r ContainerCPUs) bool { return r.Refused != "" })
	if c.Exclusive == "" && !refused {
		return view, nil
	}
	view.Lines = append(view.Lines,
		fmt.Sprintf("CPUs: exclusive %s, shared %s, free %s", cmp.Or(c.Exclusive, "none"), c.Shared, cmp.Or(c.Free, "none")))
	if c.Overcommitted != "" {
		view.Lines = append(view.Lines, "shared pool: "+c.Overcommitted)
	}
	view.Table = [][]string{{"POD", "CONTAINER", "CPUS", "MEMS", "PINNED", "WHY"}}
	for _, r := range c.Containers {
		pinned := "no"
		if r.Pinned {
			pinned = "yes"
		}
		view.Table = append(view.Table, []string{
			cmp.Or(r.Pod, "-"), cmp.Or(r.Container, "-"), cmp.Or(r.CPUs, "as before"), cmp.Or(r.Mems, "as before"), pinned, r.Why,
		})
	}
	return view, nil
}

// Workload implements capability.Reader: the CPUs that a workload has, or was refused.
func (placeReader) Workload(r capability.Reported) (capability.WorkloadView, error) {
	c, err := saidCPUs(r)
	if err != nil || c == nil {
		return capability.WorkloadView{}, err
	}
	var view capability.WorkloadView
	var all []ContainerCPUs
	for _, one := range c.Containers {
		if one.Pod == r.Workload.Name && (one.CPUs != "" || one.Refused != "") {
			all = append(all, one)
			view.Lines = append(view.Lines, fmt.Sprintf("CPUs      %s: %s", cmp.Or(one.CPUs, "as before"), one.Why))
		}
	}
	if len(all) > 0 {
		view.Sections = capability.Sections{keyCPUs: all}
	}
	return view, nil
}

// saidCPUs returns who has which CPUs, nil where no agent runs or knows it.
func saidCPUs(r capability.Reported) (*CPUs, error) {
	var c *CPUs
	if !r.Alive {
		return nil, nil //nolint:nilnil // there is nothing to say
	}
	err := r.Node.Decode(keyCPUs, &c)
	return c, err
}
