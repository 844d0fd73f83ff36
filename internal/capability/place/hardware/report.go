package hardware

import (
	"cmp"
	"slices"
	"strings"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability/place"
	"github.com/berth-project/berth/internal/capability/place/placement"
	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/node/kubelet"
)

// Topology returns the node as published, from a snapshot of its allocations, with the condition whether the shared
// pool is too small. counted returns the pods whose memory the kubelet reports and no placement names. known is false
// before the machine was read. The caller adds other facts and conditions.
func (n *Node) Topology(snapshot *place.Snapshot, counted func() map[string]bool) (spec v1alpha1.NodeTopologySpec, status v1alpha1.NodeTopologyStatus, known bool) {
	if n.Machine.Topology == nil {
		return spec, status, false
	}
	spec, status = n.Machine.Report(snapshot)
	if len(n.Kubelet.Memory) > 0 {
		pods := counted() // a placement already says what its pod has
		status.KubeletMemory = nodeMemory(n.Machine.Topology, slices.DeleteFunc(slices.Clone(n.Kubelet.Memory), func(m kubelet.Memory) bool { return !pods[m.Pod] }))
	}
	status.KubeletCPUManagerPolicy = n.Kubelet.Config.CPUManagerPolicy
	reason := "Enough"
	if snapshot.Overcommitted {
		reason = "TooMuchRequested"
	}
	status.SetCondition(v1alpha1.ConditionSharedPoolOvercommitted, snapshot.Overcommitted, reason, snapshot.OvercommittedText)
	return spec, status, true
}

// mostDevices bounds the resources of a NodeTopology.
const mostDevices = 16

// nodeDevices returns devices by the NUMA nodes of the machine; all is sorted by resource. With one node
// it returns nothing. It omits resources with a device in a node that the machine does not have.
func nodeDevices(t *topology.Topology, all []kubelet.Device) (devices []topology.Device) {
	astray := map[string]bool{}
	for _, d := range all {
		at := slices.IndexFunc(t.Nodes, func(n topology.Node) bool { return int(n.ID) == d.Node })
		last := len(devices) - 1
		if last < 0 || devices[last].Resource != d.Resource {
			devices = append(devices, topology.Device{Resource: d.Resource, Nodes: make([]int64, len(t.Nodes))})
			last++
		}
		if at < 0 {
			astray[d.Resource] = true
			continue
		}
		devices[last].Nodes[at] += d.Count
	}
	devices = slices.DeleteFunc(devices, func(d topology.Device) bool {
		return len(t.Nodes) < 2 || astray[d.Resource]
	})
	return devices[:min(len(devices), mostDevices)]
}

// mostMemory bounds the entries of memory in a NodeTopology, mostBytes, 1 PiB, the size of each.
const (
	mostMemory = 64
	mostBytes  = 1 << 50
)

// nodeMemory adds up memory that the kubelet's memory manager gave to pods, as published, the largest amounts first;
// nothing with one NUMA node.
func nodeMemory(t *topology.Topology, all []kubelet.Memory) []v1alpha1.KubeletMemory {
	if len(t.Nodes) < 2 {
		return nil
	}
	var memory []v1alpha1.KubeletMemory
	for _, m := range all {
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

// given returns the memory that the kubelet's memory manager gave, by pod; all is sorted by pod.
func given(t *topology.Topology, all []kubelet.Memory) map[string]placement.Given {
	byPod := map[string]placement.Given{}
	for len(all) > 0 {
		end := slices.IndexFunc(all, func(m kubelet.Memory) bool { return m.Pod != all[0].Pod })
		if end < 0 {
			end = len(all)
		}
		if has := placement.GivenBy(t, nodeMemory(t, all[:end])); !has.Equal(placement.Given{}) {
			byPod[all[0].Pod] = has
		}
		all = all[end:]
	}
	return byPod
}
