package topology

import "github.com/berth-project/berth/internal/cpuset"

// None stands for "in no such thing" where an id is expected: a CPU without a
// package id, a core without an L3, a CPU that no NUMA node lists.
const None = -1

// SocketID is the kernel's physical_package_id. Ids may have gaps.
type SocketID int

// NodeID is the kernel's NUMA node number, 0 to 1023. Ids may have gaps.
type NodeID int

// DieID is the kernel's die_id, unique only together with its socket.
type DieID int

// L3ID numbers L3 domains: the kernel's cache id (the one that resctrl uses)
// where every domain has one of its own, else 0, 1, … by lowest CPU.
type L3ID int

// CoreID is the lowest CPU of the core. It stays the same while that CPU is
// online, unlike the kernel's core_id, which is not unique on a machine.
type CoreID int

// Kind tells the cores of a hybrid machine apart.
type Kind string

// Kinds of cores. KindSame is every core of a machine that has one kind.
const (
	KindSame        Kind = ""
	KindPerformance Kind = "performance"
	KindEfficiency  Kind = "efficiency"
)

// Topology is one machine. It is a value: Discover and Decode hand it out and
// nothing changes it afterwards, so it may be shared freely. Its JSON form is
// what "berth topology -o json" prints and Decode reads.
//
// Every online CPU is in exactly one core. Sockets, dies, nodes and L3 domains
// are disjoint among themselves and hold online CPUs only; they are sorted by
// id (L3 by lowest CPU).
type Topology struct {
	// Online holds the CPUs that run tasks (cpu/online).
	Online cpuset.Set `json:"online"`
	// Offline holds the CPUs that are present but switched off. CPUs that are
	// merely possible (for hot-plug that may never come) are not in it.
	Offline cpuset.Set `json:"offline"`
	// Sockets are the physical packages.
	Sockets []Socket `json:"sockets"`
	// Dies are the dies of each socket, as far as the kernel reports them.
	Dies []Die `json:"dies"`
	// Nodes are the NUMA nodes, also those without CPUs or without memory. A
	// machine without NUMA information has one, 0, with all CPUs.
	Nodes []Node `json:"numaNodes"`
	// L3 holds the domains that share a third level cache.
	L3 []L3 `json:"l3"`
	// Cores are the physical cores, sorted by id.
	Cores []Core `json:"cores"`
	// Caches are all caches that two or more CPUs share, of every level. One
	// that only some threads of a core share is left out.
	Caches []Cache `json:"caches"`
	// Isolated holds the CPUs of the isolcpus boot argument, and of an agent's machine those of
	// cpuset partitions, too.
	Isolated cpuset.Set `json:"isolated"`
	// Partitioned holds those of them that cpuset partitions have taken from all other control
	// groups: Discover leaves it empty.
	Partitioned cpuset.Set `json:"partitioned,omitzero"`
	// NoHzFull holds the CPUs of the nohz_full boot argument.
	NoHzFull cpuset.Set `json:"nohzFull"`
	// Reserved holds the CPUs kept for the system. It is configuration, not
	// hardware: Discover leaves it empty.
	Reserved cpuset.Set `json:"reserved"`
	// Devices are those that device plugins have on the machine, as the kubelet says:
	// Discover leaves it empty.
	Devices []Device `json:"devices,omitempty"`
	// Warnings say, one sentence each, what was missing or contradictory and
	// how it was read.
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
	// CPUs is empty for a node of memory only.
	CPUs cpuset.Set `json:"cpus"`
	// MemoryBytes is the node's usable memory (MemTotal), 0 if it has none.
	MemoryBytes int64 `json:"memoryBytes"`
	// HugePageBytes is the part of MemoryBytes that is set aside as huge pages of any
	// size, used or not: nothing else can be put there.
	HugePageBytes int64 `json:"hugePageBytes,omitempty"`
	// HugePages are its pools of them, the smallest pages first. They have all of
	// HugePageBytes, except where only the sum is known.
	HugePages []HugePages `json:"hugePages,omitempty"`
	// Distances holds the relative cost of memory on every node of the
	// machine, in the order of Topology.Nodes (not by id, which may have
	// gaps); 10 is local.
	Distances []int `json:"distances"`
}

// Device is a resource of a device plugin, such as nvidia.com/gpu, whose devices are each in
// one NUMA node.
type Device struct {
	Resource string `json:"resource"`
	// Nodes is how many are in each of Topology.Nodes.
	Nodes []int64 `json:"perNUMANode"`
}

// HugePages is the pool of huge pages of one size in a NUMA node, used or not.
type HugePages struct {
	// PageKiB is the size of a page in KiB, as the kernel names the pool.
	PageKiB int64 `json:"pageKiB"`
	// Pages is how many there are.
	Pages int64 `json:"pages"`
}

// Bytes is the size of the pool.
func (h HugePages) Bytes() int64 { return h.PageKiB * h.Pages * kibibyte }

// PageBytes is the size of a page.
func (h HugePages) PageBytes() int64 { return h.PageKiB * kibibyte }

const kibibyte = 1024

// PoolsKnown says of every NUMA node which huge pages its HugePageBytes are.
func (t *Topology) PoolsKnown() bool {
	for i := range t.Nodes {
		if sumOf(t.Nodes[i].HugePages) != t.Nodes[i].HugePageBytes {
			return false
		}
	}
	return true
}

// sumOf is how many bytes pools have together.
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
	// CPUs are its online hardware threads.
	CPUs cpuset.Set `json:"cpus"`
	// Socket, Node and L3 are where it belongs, None if nowhere.
	Socket SocketID `json:"socket"`
	Node   NodeID   `json:"numa"`
	L3     L3ID     `json:"l3"`
	Kind   Kind     `json:"kind"`
}

// Cache is one cache that several CPUs share.
type Cache struct {
	// Level is 1 for the cache next to the core.
	Level int `json:"level"`
	// Type is the kernel's word: Data, Instruction or Unified.
	Type string     `json:"type"`
	CPUs cpuset.Set `json:"cpus"`
}

// CPUs returns all CPUs of the machine, online or not.
func (t *Topology) CPUs() cpuset.Set { return t.Online.Union(t.Offline) }

// MemoryNear returns the NUMA nodes of some CPUs, as far as they have memory.
func (t *Topology) MemoryNear(cpus cpuset.Set) cpuset.Set {
	var nodes cpuset.Set
	for _, n := range t.Nodes {
		if n.MemoryBytes > 0 && n.CPUs.Intersects(cpus) {
			nodes = nodes.Add(int(n.ID))
		}
	}
	return nodes
}
