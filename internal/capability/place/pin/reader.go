package pin

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/berth-project/berth/internal/capability"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// placeReader prints the report of place for people.
type placeReader struct{}

// Node implements capability.Reader. It prints which container has which CPUs, once a container has exclusive CPUs or
// was refused, and nothing for an agent that does not run any more.
func (placeReader) Node(r capability.Reported) (capability.NodeView, error) {
	c, err := saidCPUs(r)
	if err != nil || c == nil {
		return capability.NodeView{}, err
	}
	view := capability.NodeView{Sections: capability.Sections{keyCPUs: c}}
	if c.Unpinnable != "" {
		view.Lines = append(view.Lines, "CPU sets: left alone: "+c.Unpinnable)
	}
	if c.Memory != "" {
		view.Lines = append(view.Lines, "memory: "+c.Memory)
	}
	refused := slices.ContainsFunc(c.Containers, func(r ContainerCPUs) bool { return r.Refused != "" })
	if c.Exclusive == "" && c.Offline == "" && !refused {
		return view, nil
	}
	view.Lines = append(view.Lines,
		fmt.Sprintf("exclusive %s, shared %s, free %s", named(c.Exclusive), named(c.Shared), named(c.Free)))
	if c.Overcommitted != "" {
		view.Lines = append(view.Lines, "shared pool: "+c.Overcommitted)
	}
	// Without Kubernetes, and for pods pinned as a whole, the name suffices.
	head, parts := []string{"WORKLOAD"}, slices.ContainsFunc(c.Containers, func(r ContainerCPUs) bool { return r.Container != "" })
	if parts {
		head = []string{"POD", "CONTAINER"}
	}
	view.Table = [][]string{append(head, "CPUS", "MEMS", "PINNED", "WHY")}
	for _, r := range c.Containers {
		who := []string{cmp.Or(r.Pod, "-")}
		if parts {
			who = append(who, cmp.Or(r.Container, "-"))
		}
		pinned := "no"
		if r.Pinned {
			pinned = "yes"
		}
		view.Table = append(view.Table, append(who, cmp.Or(r.CPUs, "as before"), cmp.Or(r.Mems, "as before"), pinned, r.Why))
	}
	return view, nil
}

// named returns a reported list for people: a bare CPU number looks like a count.
func named(list string) string {
	cpus, err := cpuset.Parse(list)
	if err != nil {
		return list // of another version
	}
	return cpus.Named()
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
		// A workload of a cluster is a container, or a pod as a whole.
		if (one.Pod == r.Workload.Name || one.Pod+"/"+one.Container == r.Workload.Name) && (one.CPUs != "" || one.Refused != "") {
			all = append(all, one)
			view.Lines = append(view.Lines, fmt.Sprintf("CPUs      %s: %s", cmp.Or(one.CPUs, "as before"), one.Why))
		}
	}
	if len(all) > 0 {
		view.Sections = capability.Sections{keyCPUs: all}
	}
	return view, nil
}

// saidCPUs returns the reported CPUs, nil if no agent runs or the agent does not know them.
func saidCPUs(r capability.Reported) (*CPUs, error) {
	if !r.Alive {
		return nil, nil //nolint:nilnil // there is nothing to say
	}
	return capability.OfNode[*CPUs](r, keyCPUs)
}
