// Package hardware describes a host for the allocation of CPUs: its topology, without the CPUs that are reserved for
// the host, under the policy of its node. It reads the host again when one of these changed, and reports it as a
// NodeTopology.
package hardware

import (
	"io/fs"
	"slices"
	"time"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability/place"
	"github.com/berth-project/berth/internal/capability/place/alloc"
	"github.com/berth-project/berth/internal/capability/place/placement"
	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/node/kubelet"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// Machine is one host. The zero value was not read yet.
type Machine struct {
	// Topology is nil until it was read; no code changes it.
	Topology *topology.Topology
	basis    Basis
	spec     v1alpha1.NodeTopologySpec
	memory   topology.Memory
	version  int // of the memory in Topology
}

// Basis decides which CPUs of a host can be allocated.
type Basis struct {
	// Online, Reserved and Partitioned are sets of CPUs. Reserved CPUs are for the host. Partitioned CPUs belong to
	// cpuset partitions, and no other group can use them.
	Online, Reserved, Partitioned cpuset.Set
	Policy                        placement.NodePolicy
	// Devices are those of the kubelet, sorted by resource.
	Devices []kubelet.Device
}

func (b *Basis) equal(o *Basis) bool {
	return b.Online == o.Online && b.Reserved == o.Reserved && b.Partitioned == o.Partitioned && b.Policy == o.Policy &&
		slices.Equal(b.Devices, o.Devices)
}

// Update reads the host below fsys, as topology.Discover does, if its basis or its memory has changed, and reports
// whether it has. The facts are without AllocatableMilli and Given. After an error the known state is unchanged.
func (m *Machine) Update(fsys fs.FS, b Basis, now time.Duration) (facts place.Facts, changed bool, err error) {
	m.memory.Look(fsys, now)
	if m.Topology != nil && m.basis.equal(&b) && m.version == m.memory.Version {
		return place.Facts{}, false, nil
	}
	t, err := topology.Discover(fsys)
	if err != nil {
		return place.Facts{}, false, err
	}
	t.Reserved, t.Partitioned = b.Reserved, b.Partitioned.Intersect(t.Online)
	t.Isolated = t.Isolated.Union(t.Partitioned)
	t.Devices = nodeDevices(t, b.Devices)
	compiled, err := alloc.Compile(t)
	if err != nil {
		return place.Facts{}, false, err
	}
	m.Topology, m.basis, m.spec, m.version = t, b, t.Spec(), m.memory.Version
	return place.Facts{Machine: compiled, Hash: t.Hash(), Policy: b.Policy}, true, nil
}

// Reserved returns the CPUs that are reserved for the host.
func (m *Machine) Reserved() cpuset.Set { return m.basis.Reserved }

// Doubt returns what is doubtful about the memory of the host, "" if nothing is.
func (m *Machine) Doubt() string { return m.memory.Doubt }

// AllocatableMilli returns the capacity of all CPUs that are not reserved, in thousandths of a CPU.
func (m *Machine) AllocatableMilli() int64 {
	return int64(m.Topology.Online.Difference(m.basis.Reserved).Size()) * 1000
}

// Report returns the host as it is published: its topology, and the allocations of a snapshot. The caller adds further
// facts to the status.
func (m *Machine) Report(s *place.Snapshot) (v1alpha1.NodeTopologySpec, v1alpha1.NodeTopologyStatus) {
	status := v1alpha1.NodeTopologyStatus{
		PlacementVersions: []int64{v1alpha1.PlacementVersion},
		Counts: v1alpha1.NodeTopologyCounts{
			Sockets: int64(len(m.Topology.Sockets)), NUMANodes: int64(len(m.Topology.Nodes)), L3: int64(len(m.Topology.L3)),
			Cores: int64(len(m.spec.Cores)), CPUs: int64(m.Topology.Online.Size()),
		},
		Pools: v1alpha1.NodePools{
			Exclusive: v1alpha1.CPUList(s.Exclusive.String()), Shared: v1alpha1.CPUList(s.Shared.String()),
			Offline: v1alpha1.CPUList(s.Offline.String()),
		},
		FreeCPUs:      int64(s.Free.Size()),
		Fragmentation: int64(s.Fragmentation.Percent),
	}
	for _, n := range s.Nodes {
		status.NUMANodes = append(status.NUMANodes, v1alpha1.NUMANodeStatus{
			ID: int64(n.ID), FreeCPUs: int64(n.FreeCPUs), FreeCores: int64(n.FreeCores),
		})
	}
	return m.spec, status
}
