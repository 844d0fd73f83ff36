package pin

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/inventory"
	"github.com/berth-project/berth/internal/kubelet"
	"github.com/berth-project/berth/internal/place"
	"github.com/berth-project/berth/internal/reconcile"
	"github.com/berth-project/berth/internal/topology"
)

// Topology is the node as it is published, by a snapshot of the inventory: not known before
// the machine was read. The caller adds what else is known, and the conditions.
func (s *Sets) Topology(snapshot place.Snapshot) (spec v1alpha1.NodeTopologySpec, status v1alpha1.NodeTopologyStatus, known bool) {
	if s.machine.Topology == nil {
		return spec, status, false
	}
	spec, status = s.machine.Report(snapshot)
	spec.Devices = nodeDevices(s.machine.Topology, s.kubelet.Devices)
	status.KubeletMemory = nodeMemory(s.machine.Topology, s.kubelet.Memory, s.inventory.Unplaced)
	status.KubeletCPUManagerPolicy = s.kubelet.Config.CPUManagerPolicy
	return spec, status, true
}

// mostDevices bounds the resources that a NodeTopology has.
const mostDevices = 16

// nodeDevices returns devices as they are published, which are sorted by their resource: by
// the NUMA nodes of the machine, nothing where there is one. Resources with a device in a
// node that the machine does not have are left out.
func nodeDevices(t *topology.Topology, all []kubelet.Device) (devices []v1alpha1.NodeDevice) {
	astray := map[string]bool{}
	for _, d := range all {
		at := slices.IndexFunc(t.Nodes, func(n topology.Node) bool { return int(n.ID) == d.Node })
		last := len(devices) - 1
		if last < 0 || devices[last].Resource != d.Resource {
			devices = append(devices, v1alpha1.NodeDevice{Resource: d.Resource, PerNUMANode: make([]int64, len(t.Nodes))})
			last++
		}
		if at < 0 {
			astray[d.Resource] = true
			continue
		}
		devices[last].PerNUMANode[at] += d.Count
	}
	devices = slices.DeleteFunc(devices, func(d v1alpha1.NodeDevice) bool {
		return len(t.Nodes) < 2 || astray[d.Resource]
	})
	return devices[:min(len(devices), mostDevices)]
}

// mostMemory bounds how many sets of NUMA nodes a NodeTopology has memory of, and mostBytes, 1 PiB,
// how much of each.
const (
	mostMemory = 64
	mostBytes  = 1 << 50
)

// nodeMemory returns what the kubelet's memory manager gave to pods, as it is published, the
// largest amounts first: nothing where there is one NUMA node. What pods with a placement have
// counts where that says, and pods that are not counted have none.
func nodeMemory(t *topology.Topology, all []kubelet.Memory, counted func() map[string]bool) []v1alpha1.KubeletMemory {
	if len(t.Nodes) < 2 || len(all) == 0 {
		return nil
	}
	var memory []v1alpha1.KubeletMemory
	pods := counted()
	for _, m := range all {
		if !pods[m.Pod] {
			continue
		}
		one := v1alpha1.KubeletMemory{NUMANodes: v1alpha1.CPUList(m.Nodes.String()), PageKiB: m.PageBytes / 1024, Bytes: m.Bytes}
		at := slices.IndexFunc(memory, func(has v1alpha1.KubeletMemory) bool {
			return has.NUMANodes == one.NUMANodes && has.PageKiB == one.PageKiB
		})
		if at < 0 {
			memory = append(memory, one)
			continue
		}
		memory[at].Bytes = min(memory[at].Bytes+one.Bytes, mostBytes)
	}
	slices.SortFunc(memory, func(a, b v1alpha1.KubeletMemory) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.PageKiB, b.PageKiB), strings.Compare(string(a.NUMANodes), string(b.NUMANodes)))
	})
	return memory[:min(len(memory), mostMemory)]
}

// AddConditions adds whether Berth sets CPU sets here, and whether the shared pool is too
// small. Which side effects of the reconciler's writes last on this host, and what is doubtful about
// its memory, are in the message of the first.
func (s *Sets) AddConditions(status *v1alpha1.NodeTopologyStatus, snapshot place.Snapshot, r *reconcile.Reconciler) {
	switch o := s.inventory.Obstacle(); o.Reason {
	case "":
		said := slices.DeleteFunc([]string{s.kubelet.MemsOwner(), r.Limits(), s.machine.Doubt()}, func(text string) bool { return text == "" })
		status.SetCondition(v1alpha1.ConditionPinnable, true, "Working", strings.Join(said, "; "))
	case inventory.Restoring:
		s.addRestoring(status, o, r)
	default:
		status.SetCondition(v1alpha1.ConditionPinnable, false, o.Reason, o.Message)
	}
	reason := "Enough"
	if snapshot.Overcommitted {
		reason = "TooMuchRequested"
	}
	status.SetCondition(v1alpha1.ConditionSharedPoolOvercommitted, snapshot.Overcommitted, reason, snapshot.OvercommittedText)
}

// addRestoring adds how far the agent is with putting everything back.
func (s *Sets) addRestoring(status *v1alpha1.NodeTopologyStatus, o inventory.Obstacle, r *reconcile.Reconciler) {
	ours, others := reconcile.Standing(r)
	ours = max(ours, len(s.asked.settings)) // what is desired still is to be journaled, and put back then
	awaited, doubt := inventory.Unrestored(s.inventory)
	if ours > 0 {
		awaited = fmt.Sprintf("values that are not back yet: %d", ours)
	}
	if awaited != "" {
		status.SetCondition(v1alpha1.ConditionPinnable, false, o.Reason, o.Message+": "+awaited)
		return
	}
	text := o.Message + ": every original value is back"
	if others > 0 {
		text += fmt.Sprintf("; values that other programs wrote stay: %d", others)
	}
	if doubt != "" {
		text += "; " + doubt
	}
	status.SetCondition(v1alpha1.ConditionPinnable, false, v1alpha1.PinnableRestored, text)
}
