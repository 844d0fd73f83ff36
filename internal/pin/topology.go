package pin

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/inventory"
	"github.com/berth-project/berth/internal/kubelet"
	"github.com/berth-project/berth/internal/observed"
	"github.com/berth-project/berth/internal/place"
	"github.com/berth-project/berth/internal/topology"
)

// Topology returns the node as published, from a snapshot of the assignment, with the condition whether the shared pool
// is too small. known is false before the machine was read. The caller adds other facts and conditions.
func (s *Sets) Topology(snapshot place.Snapshot) (spec v1alpha1.NodeTopologySpec, status v1alpha1.NodeTopologyStatus, known bool) {
	if s.machine.Topology == nil {
		return spec, status, false
	}
	spec, status = s.machine.Report(snapshot)
	spec.Devices = nodeDevices(s.machine.Topology, s.kubelet.Devices)
	status.KubeletMemory = nodeMemory(s.machine.Topology, s.kubelet.Memory, s.inventory.Unplaced)
	status.KubeletCPUManagerPolicy = s.kubelet.Config.CPUManagerPolicy
	reason := "Enough"
	if snapshot.Overcommitted {
		reason = "TooMuchRequested"
	}
	status.SetCondition(v1alpha1.ConditionSharedPoolOvercommitted, snapshot.Overcommitted, reason, snapshot.OvercommittedText)
	return spec, status, true
}

// mostDevices bounds the resources of a NodeTopology.
const mostDevices = 16

// nodeDevices returns devices as published, by the NUMA nodes of the machine; all is sorted by resource. With one node
// it returns nothing. It omits resources with a device in a node that the machine does not have.
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

// mostMemory bounds the entries of memory in a NodeTopology, mostBytes, 1 PiB, the size of each.
const (
	mostMemory = 64
	mostBytes  = 1 << 50
)

// nodeMemory returns the memory that the kubelet's memory manager gave to pods, as published, the largest amounts
// first; nothing with one NUMA node. A placement already says what its pod has, so nodeMemory only adds counted pods.
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

// AddConditions adds whether Berth sets CPU sets here. The message of the condition has the lasting side effects of the
// reconciler's writes on this host, and doubts about its memory.
func (s *Sets) AddConditions(status *v1alpha1.NodeTopologyStatus) {
	switch o := s.inventory.Obstacle(); o.Reason {
	case "":
		said := slices.DeleteFunc([]string{s.kubelet.MemsOwner(), s.found.Limits, s.machine.Doubt()}, func(text string) bool { return text == "" })
		status.SetCondition(v1alpha1.ConditionPinnable, true, "Working", strings.Join(said, "; "))
	case observed.Restoring:
		s.addRestoring(status, o)
	default:
		status.SetCondition(v1alpha1.ConditionPinnable, false, o.Reason, o.Message)
	}
}

// addRestoring adds the progress of restoring everything.
func (s *Sets) addRestoring(status *v1alpha1.NodeTopologyStatus, o observed.Obstacle) {
	standing := s.reconciler.Standing()
	ours := max(standing.Ours, len(s.asked.settings)) // desired settings are still to be journaled, then restored
	awaited, doubt := inventory.Unrestored(s.inventory)
	if ours > 0 {
		awaited = fmt.Sprintf("values that are not back yet: %d", ours)
	}
	if awaited != "" {
		status.SetCondition(v1alpha1.ConditionPinnable, false, o.Reason, o.Message+": "+awaited)
		return
	}
	text := o.Message + ": every original value is back"
	if standing.Others > 0 {
		text += fmt.Sprintf("; values that other programs wrote stay: %d", standing.Others)
	}
	if doubt != "" {
		text += "; " + doubt
	}
	status.SetCondition(v1alpha1.ConditionPinnable, false, v1alpha1.PinnableRestored, text)
}
