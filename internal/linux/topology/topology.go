package topology

import (
	"slices"

	"github.com/berth-project/berth/internal/value/cpuset"
)

// None is the id for "in none": a CPU without a package id, a core without an L3, a CPU that no NUMA node lists.
const None = -1

// SocketID is the kernel's physical_package_id. Ids may have gaps.
type SocketID int

// NodeID is the kernel's NUMA node number, 0 to 1023. Ids may have gaps.
type NodeID int

// DieID is the kernel's die_id, unique only together with its socket.
type DieID int

// L3ID numbers L3 domains. It is the kernel's cache id (which resctrl also uses) if every domain has a unique id. Else
// the ids are 0, 1, … by lowest CPU.
type L3ID int

// CoreID is the lowest CPU of the core. It does not change while that CPU is online. The kernel's core_id is not unique
// on a machine.
type CoreID int

// Kind is the kind of a core of a hybrid machine.
type Kind string

// Kinds of cores. KindSame is the kind of every core if the machine has only one kind.
const (
	KindSame        Kind = ""
	KindPerformance Kind = "performance"
	KindEfficiency  Kind = "efficiency"
)

// Topology is one machine. Nothing changes a Topology after Discover or Decode returned it, so it may be shared freely.
// Its JSON form is the output of "berth topology -o json" and the input of Decode.
//
// Every online CPU is in exactly one core. Sockets, dies, nodes and L3 domains are disjoint among themselves and
// contain online CPUs only. They are sorted by id (L3 domains by lowest CPU).
type Topology struct {
	// Online contains the CPUs that run tasks (cpu/online).
	Online cpuset.Set `json:"online"`
	// Offline contains the CPUs that are present but switched off. It does not contain CPUs that are merely possible
	// (for hot-plug that may never come).
	Offline cpuset.Set `json:"offline"`
	// Sockets are the physical packages.
	Sockets []Socket `json:"sockets"`
	// Dies are the dies of each socket, if the kernel reports them.
	Dies []Die `json:"dies"`
	// Nodes are the NUMA nodes, including nodes without CPUs or without memory. A machine without NUMA information has
	// one node, 0, with all CPUs.
	Nodes []Node `json:"numaNodes"`
	// L3 lists the domains of cores that share a third level cache.
	L3 []L3 `json:"l3"`
	// Cores are the physical cores, sorted by id.
	Cores []Core `json:"cores"`
	// Caches are all caches that two or more CPUs share, of every level. A cache that only some threads of a core share
	// is omitted.
	Caches []Cache `json:"caches"`
	// Isolated contains the CPUs of the isolcpus boot argument. In an agent's machine it also contains the CPUs of
	// cpuset partitions.
	Isolated cpuset.Set `json:"isolated"`
	// Partitioned contains the isolated CPUs that cpuset partitions removed from all other control groups. Discover
	// leaves it empty.
	Partitioned cpuset.Set `json:"partitioned,omitzero"`
	// NoHzFull contains the CPUs of the nohz_full boot argument.
	NoHzFull cpuset.Set `json:"nohzFull"`
	// Reserved contains the CPUs that are reserved for the system. It is configuration, not hardware: Discover leaves
	// it empty.
	Reserved cpuset.Set `json:"reserved"`
	// Devices are the devices of device plugins on the machine, as reported by the kubelet. Discover leaves it empty.
	Devices []Device `json:"devices,omitempty"`
	// Warnings state, one sentence each, what was missing or contradictory, and how Discover interpreted it.
	Warnings []string `json:"warnings"`
}

// Socket is one physical package.
type Socket struct {
	ID   SocketID   `json:"id"`
	CPUs cpuset.Set `json:"cpus"`
}

// Die is one die of a package.
type Die struct {
	ID     DieID      `json:"id"`
	Socket SocketID   `json:"socket"`
	CPUs   cpuset.Set `json:"cpus"`
}

// Node is one NUMA node.
type Node struct {
	ID NodeID `json:"id"`
	// CPUs is empty for a node that has only memory.
	CPUs cpuset.Set `json:"cpus"`
	// MemoryBytes is the node's usable memory (MemTotal), 0 if it has none.
	MemoryBytes int64 `json:"memoryBytes"`
	// HugePageBytes is the part of MemoryBytes that is set aside as huge pages of any size, used or not. It is not
	// available for other memory.
	HugePageBytes int64 `json:"hugePageBytes,omitempty"`
	// HugePages are the node's pools of huge pages, the smallest pages first. Their sum is HugePageBytes, unless only
	// the sum is known.
	HugePages []HugePages `json:"hugePages,omitempty"`
	// Distances contains the relative cost of memory on every node of the machine; 10 is local. The order is the order
	// of Topology.Nodes, not the ids, which may have gaps.
	Distances []int `json:"distances"`
}

// Device is a resource of a device plugin, such as nvidia.com/gpu. Each of its devices is in one NUMA node.
type Device struct {
	Resource string `json:"resource"`
	// Nodes is the number of devices in each node of Topology.Nodes.
	Nodes []int64 `json:"perNUMANode"`
}

// HugePages is the pool of huge pages of one size in a NUMA node, used or not.
type HugePages struct {
	// PageKiB is the size of a page in KiB, as the kernel names the pool.
	PageKiB int64 `json:"pageKiB"`
	// Pages is the number of pages in the pool.
	Pages int64 `json:"pages"`
}

// Bytes returns the size of the pool.
func (h HugePages) Bytes() int64 { return h.PageKiB * h.Pages * kibibyte }

// PageBytes returns the size of a page.
func (h HugePages) PageBytes() int64 { return h.PageKiB * kibibyte }

const kibibyte = 1024

// PoolsKnown reports whether the HugePages of every NUMA node account for all of its HugePageBytes.
func (t *Topology) PoolsKnown() bool {
	for i := range t.Nodes {
		if sumOf(t.Nodes[i].HugePages) != t.Nodes[i].HugePageBytes {
			return false
		}
	}
	return true
}

// sumOf returns the size of all pools in bytes.
func sumOf(pools []HugePages) int64 {
	sum := int64(0)
	for _, pool := range pools {
		sum += pool.Bytes()
	}
	return sum
}

// L3 is one domain of cores that share a third level cache.
type L3 struct {
	ID   L3ID       `json:"id"`
	CPUs cpuset.Set `json:"cpus"`
}

// Core is one physical core.
type Core struct {
	ID CoreID `json:"id"`
	// CPUs are the core's online hardware threads.
	CPUs cpuset.Set `json:"cpus"`
	// Socket, Node and L3 are the ids of the groups that contain the core, or None.
	Socket SocketID `json:"socket"`
	Node   NodeID   `json:"numa"`
	L3     L3ID     `json:"l3"`
	Kind   Kind     `json:"kind"`
}

// Cache is one cache that several CPUs share.
type Cache struct {
	// Level is 1 for the cache next to the core.
	Level int `json:"level"`
	// Type is the kernel's name for the type: Data, Instruction or Unified.
	Type string     `json:"type"`
	CPUs cpuset.Set `json:"cpus"`
}

// CPUs returns all CPUs of the machine, online or not.
func (t *Topology) CPUs() cpuset.Set { return t.Online.Union(t.Offline) }

// Containers returns the CPUs that run containers: pinned CPUs and the shared pool.
func (t *Topology) Containers() cpuset.Set {
	return t.Online.Difference(t.Reserved).Difference(t.Isolated)
}

// MemoryNear returns the NUMA nodes of some CPUs, without nodes that have no memory.
func (t *Topology) MemoryNear(cpus cpuset.Set) cpuset.Set {
	var nodes cpuset.Set
	for _, n := range t.Nodes {
		if n.MemoryBytes > 0 && n.CPUs.Intersects(cpus) {
			nodes = nodes.Add(int(n.ID))
		}
	}
	return nodes
}

// NodesOf returns the NUMA nodes of some CPUs.
func (t *Topology) NodesOf(cpus cpuset.Set) cpuset.Set {
	var nodes cpuset.Set
	for i := range t.Nodes {
		if t.Nodes[i].CPUs.Intersects(cpus) {
			nodes = nodes.Add(int(t.Nodes[i].ID))
		}
	}
	return nodes
}

// CPUsOf returns the CPUs of some NUMA nodes.
func (t *Topology) CPUsOf(nodes cpuset.Set) cpuset.Set {
	var cpus cpuset.Set
	for i := range t.Nodes {
		if nodes.Contains(int(t.Nodes[i].ID)) {
			cpus = cpus.Union(t.Nodes[i].CPUs)
		}
	}
	return cpus
}

// MemoryNodes returns the NUMA nodes that have memory, or all nodes if none is known to have any.
func (t *Topology) MemoryNodes() cpuset.Set {
	var all, some cpuset.Set
	for i := range t.Nodes {
		all = all.Add(int(t.Nodes[i].ID))
		if t.Nodes[i].MemoryBytes > 0 {
			some = some.Add(int(t.Nodes[i].ID))
		}
	}
	if some.IsEmpty() {
		return all
	}
	return some
}

// L3sOf returns the ids of the L3 domains of some CPUs, in the order of L3.
func (t *Topology) L3sOf(cpus cpuset.Set) []int {
	ids := []int{}
	for i := range t.L3 {
		if t.L3[i].CPUs.Intersects(cpus) {
			ids = append(ids, int(t.L3[i].ID))
		}
	}
	return ids
}

// Partly returns the cores with only some of their CPUs among cpus.
func (t *Topology) Partly(cpus cpuset.Set) []Core {
	return slices.DeleteFunc(slices.Clone(t.Cores), func(c Core) bool { return !c.CPUs.Intersects(cpus) || c.CPUs.IsSubsetOf(cpus) })
}

// HasCore reports whether a whole core is among the CPUs.
func (t *Topology) HasCore(cpus cpuset.Set) bool {
	for i := range t.Cores {
		if core := t.Cores[i].CPUs; !core.IsEmpty() && core.IsSubsetOf(cpus) {
			return true
		}
	}
	return false
}

// Efficiency returns the CPUs of the efficiency cores.
func (t *Topology) Efficiency() cpuset.Set {
	var slow cpuset.Set
	for i := range t.Cores {
		if t.Cores[i].Kind == KindEfficiency {
			slow = slow.Union(t.Cores[i].CPUs)
		}
	}
	return slow
}
