package agent

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability"
	"github.com/berth-project/berth/internal/kubelet"
	"github.com/berth-project/berth/internal/place"
	"github.com/berth-project/berth/internal/plan"
)

// Keys of place in the checkpoint and in the JSON of status.
const (
	placeName  = "place"
	keyCPUs    = "cpus"
	keyKubelet = "kubelet"
)

// CPUs is who has which CPUs of the node. CPU lists are in the kernel's format.
type CPUs struct {
	// Exclusive are the CPUs that workloads have for themselves, siblings that stay
	// empty included; Shared those of all others; Free those that could still be
	// given out.
	Exclusive string `json:"exclusive"`
	Shared    string `json:"shared"`
	Free      string `json:"free"`
	// Reserved are kept for the host.
	Reserved string `json:"reserved"`
	// Fragmentation is the share of the free CPUs that lie in L3 domains partly in
	// use, in percent.
	Fragmentation int `json:"fragmentationPercent"`
	// Unpinnable is why no CPU set is set here, empty where they are.
	Unpinnable string `json:"unpinnable,omitempty"`
	// Overcommitted is the sentence about a shared pool that is too small.
	Overcommitted string `json:"overcommitted,omitempty"`
	// Containers are those that have exclusive CPUs, and those that shrink to the shared pool.
	Containers []ContainerCPUs `json:"containers"`
}

// ContainerCPUs is one container, or one workload of a host without Kubernetes.
type ContainerCPUs struct {
	Pod       string `json:"pod"`
	Container string `json:"container,omitempty"`
	// CPUs and Mems are what it should have, empty for what it had before Berth.
	CPUs   string `json:"cpus,omitempty"`
	Mems   string `json:"mems,omitempty"`
	Pinned bool   `json:"pinned"`
	Why    string `json:"why"`
	// Refused is why it has no exclusive CPUs although it asks, empty otherwise.
	Refused string `json:"refused,omitempty"`
}

// placeReport is place as the agent and the commands see it.
type placeReport struct{ c *controller }

// Describe implements capability.Capability.
func (placeReport) Describe() capability.Info {
	return capability.Info{
		Name:    placeName,
		Owners:  []plan.Owner{plan.OwnerPlace, plan.OwnerPool},
		Summary: "exclusive CPUs and their memory nodes, and the shared pool of all others",
		Page:    "docs/node.md",
		Keys: []string{
			v1alpha1.AnnotationCPUSetScheduler, v1alpha1.AnnotationCPUPolicy,
			v1alpha1.AnnotationResourceSpec, v1alpha1.AnnotationNUMATopologySpec,
		},
		Reader: placeReader{},
	}
}

// Decide implements capability.Decider.
func (r placeReport) Decide(n *capability.Node) capability.Decision {
	c := r.c
	if c.around == nil && c.burst.Moved() {
		c.inventory.SetStandalone(c.burst.Standalone(), c.opts.Config.SharedPool)
	}
	var d capability.Decision
	if d.Held = !c.mayPin(); !d.Held {
		d.Settings, c.pins.unlimited = c.desired()
	}
	d.Events = c.placeEvents()
	n.Unlimited, n.Exclusive = c.pins.unlimited, c.inventory.Exclusive()
	return d
}

// Outcome implements capability.Capability.
func (r placeReport) Outcome(time.Time) capability.Outcome {
	out := capability.Outcome{Node: capability.Sections{}, State: capability.Sections{}}
	if cpus := r.cpus(); cpus != nil {
		out.Node[keyCPUs] = cpus
	}
	// An agent that starts while the kubelet cannot be asked goes by what it said last.
	if said := r.c.machine.kubelet.Said(); said != nil {
		out.State[keyKubelet] = said
	}
	return out
}

// Recall implements capability.Capability.
func (r placeReport) Recall(saved capability.Sections) error {
	var said *kubelet.Said
	if err := saved.Decode(keyKubelet, &said); err != nil {
		return err
	}
	r.c.machine.kubelet.Recall(said)
	return nil
}

// nameOfRow names a group that only shrinks to the shared pool by its path.
func nameOfRow(row place.Row) string {
	if row.PodUID == "" {
		return row.ContainerID
	}
	return row.Pod
}

// cpus gathers who has which CPUs, nil while the machine is not known.
func (r placeReport) cpus() *CPUs {
	if r.c.machine.Topology == nil {
		return nil
	}
	s := r.c.inventory.Snapshot()
	out := &CPUs{
		Exclusive: s.Exclusive.String(), Shared: s.Shared.String(), Free: s.Free.String(),
		Reserved:      r.c.machine.Reserved().String(),
		Fragmentation: s.Fragmentation.Percent,
		Unpinnable:    r.c.inventory.Obstacle().Message,
		Overcommitted: s.OvercommittedText,
		Containers:    []ContainerCPUs{},
	}
	for _, row := range s.Rows {
		if row.Phase == place.Stopped || row.Container == "" && !row.Pinned && row.PodUID != "" {
			continue // a sandbox does nothing
		}
		out.Containers = append(out.Containers, ContainerCPUs{
			Pod: nameOfRow(row), Container: row.Container, CPUs: row.Desired.String(), Mems: row.Mems.String(),
			Pinned: row.Pinned, Why: row.Why, Refused: row.Refused,
		})
	}
	return out
}

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
