package assignment

import (
	"slices"

	"github.com/berth-project/berth/internal/intent/workload"
	"github.com/berth-project/berth/internal/node/inventory"
	"github.com/berth-project/berth/internal/node/observed"
)

// running has the running containers, as the capabilities see them.
type running struct {
	list []observed.Workload
	// from is the list of the Inventory from which list was made.
	from []observed.Workload
	// made is true if no decision changed since then.
	made bool
}

// Running returns the running containers of known pods, and the workloads of a host without Kubernetes, by name. It
// returns the same list until something changes.
func (a *Assignment) Running() []observed.Workload {
	a.learn()
	from := a.inventory.Running()
	if a.running.made && observed.SameList(from, a.running.from) {
		return a.running.list
	}
	pinned := map[string]bool{}
	for _, d := range a.node.Desired() {
		pinned[d.ContainerID] = d.Pinned
	}
	list := slices.Clone(from)
	for i := range list {
		c := &list[i]
		own, desired := pinned[c.ID]
		// A workload of a host without Kubernetes has its own CPUs unless it shrinks to the pool.
		c.Bound = c.Bound || own || c.Pod == "" && !desired
	}
	a.running = running{list: list, from: from, made: true}
	return list
}

// Workloads returns the groups whose quota the agent sets, or whose use it counts, as inventory.WorkloadsWith does.
func (a *Assignment) Workloads() ([]workload.Workload, map[string]workload.Findings) {
	a.learn()
	placed := map[inventory.InPod]inventory.Placed{}
	for _, d := range a.node.Desired() {
		placed[inventory.InPod{UID: d.PodUID, Name: d.Container}] = inventory.Placed{Exclusive: d.Pinned, Unlimited: d.NoQuota}
	}
	return a.inventory.WorkloadsWith(placed)
}
