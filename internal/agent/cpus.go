package agent

import (
	"github.com/berth-project/berth/internal/place"
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

// nameOfRow names a group that only shrinks to the shared pool by its path.
func nameOfRow(row place.Row) string {
	if row.PodUID == "" {
		return row.ContainerID
	}
	return row.Pod
}

// cpus gathers who has which CPUs, nil while the machine is not known.
func (c *controller) cpus() *CPUs {
	if c.machine.Topology == nil {
		return nil
	}
	s := c.inventory.Snapshot()
	out := &CPUs{
		Exclusive: s.Exclusive.String(), Shared: s.Shared.String(), Free: s.Free.String(),
		Reserved:      c.machine.Reserved().String(),
		Fragmentation: s.Fragmentation.Percent,
		Unpinnable:    c.inventory.Obstacle().Message,
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
