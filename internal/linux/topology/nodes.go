package topology

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-project/berth/internal/value/cpuset"
)

// The distances that the kernel assumes if firmware has none.
const (
	localDistance  = 10
	remoteDistance = 20
)

// nodes reads the NUMA nodes and makes their CPUs disjoint.
func (s *source) nodes(online cpuset.Set) ([]Node, error) {
	ids, err := s.nodeIDs()
	if err != nil {
		return nil, err
	}
	if ids.IsEmpty() {
		s.notes.add("no NUMA information: one node, 0, with all CPUs")
		return []Node{{CPUs: online, MemoryBytes: s.memory(machineMemory), Distances: []int{localDistance}}}, nil
	}
	nodes, sum := make([]Node, 0, ids.Size()), int64(0)
	for id := range ids.All() {
		nodes = append(nodes, s.node(id, online))
		sum += nodes[len(nodes)-1].MemoryBytes
	}
	if doubt := s.doubt(sum); doubt != "" {
		s.notes.add("%s", doubt)
	}
	s.distances(nodes)
	nodes = s.mergeEqual(nodes)
	s.separate(nodes)
	s.homeless(nodes, online)
	return nodes, nil
}

// nodeIDs returns the ids of the online nodes, none without NUMA information.
func (s *source) nodeIDs() (cpuset.Set, error) {
	if ids, ok := s.list(nodeDir + "/online"); ok && !ids.IsEmpty() {
		return ids, nil
	}
	ids, err := s.numbered(nodeDir, "node")
	if err == nil && !ids.IsEmpty() {
		s.notes.add("no usable list of online NUMA nodes: taken from the node directories")
	}
	return ids, err
}

func (s *source) node(id int, online cpuset.Set) Node {
	cpus, ok := s.set(nodePath(id, "cpulist"), nodePath(id, "cpumap"))
	if !ok {
		s.notes.add("NUMA node %d: no usable list of its CPUs", id)
	}
	memory := s.nodeMemory(id)
	node := Node{ID: NodeID(id), CPUs: cpus.Intersect(online), MemoryBytes: memory.total, HugePages: memory.pools}
	if !node.holdsPools() {
		// The pools exceed the node's memory: no number is reliable.
		node.HugePages, node.HugePageBytes = nil, node.MemoryBytes
	}
	return node
}

// holdsPools reports whether the pools fit into the memory of the node. If they do, it sets HugePageBytes to their sum.
func (n *Node) holdsPools() bool {
	sum := int64(0)
	for _, pool := range n.HugePages {
		if pool.PageKiB <= 0 || pool.Pages < 0 || pool.Pages > (n.MemoryBytes-sum)/kibibyte/pool.PageKiB {
			return false
		}
		sum += pool.Bytes()
	}
	n.HugePageBytes = sum
	return true
}

// hugePages returns a node's pools of huge pages, as Linux shows them in hugetlb_sysfs_add_hstate (mm/hugetlb_sysfs.c):
// one directory for each size, with the number of existing pages, free or not. A kernel without huge pages has no
// directory.
func (s *source) hugePages(id int) []HugePages {
	dir := nodePath(id, "hugepages")
	sizes, err := fs.ReadDir(s.fsys, dir)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			s.notes.bad(dir, err)
		}
		return nil
	}
	var pools []HugePages
	for _, entry := range sizes {
		size, ok := strings.CutPrefix(entry.Name(), "hugepages-")
		kib, err := strconv.ParseInt(strings.TrimSuffix(size, "kB"), 10, 64)
		if !ok || err != nil || kib <= 0 {
			continue
		}
		if pages, _ := s.number(dir + "/" + entry.Name() + "/nr_hugepages"); pages > 0 {
			pools = append(pools, HugePages{PageKiB: kib, Pages: int64(pages)})
		}
	}
	slices.SortFunc(pools, func(a, b HugePages) int { return cmp.Compare(a.PageKiB, b.PageKiB) })
	return pools
}

// memory returns MemTotal of a meminfo file, in bytes.
func (s *source) memory(name string) int64 {
	text, ok := s.text(name)
	if !ok {
		s.notes.add("no memory size: %s is missing", name)
		return 0
	}
	_, rest, _ := strings.Cut(text, memTotal)
	fields := strings.Fields(rest)
	const most = 1 << 52
	if len(fields) > 0 {
		if n, err := strconv.ParseInt(fields[0], 10, 64); err == nil && n >= 0 && n < most {
			return n * kibibyte
		}
	}
	s.notes.bad(name, fmt.Errorf("want %q and a number of kB", memTotal))
	return 0
}

const memTotal = "MemTotal:"

// distances fills the distance rows. Each row lists the online nodes in ascending order of their ids.
func (s *source) distances(nodes []Node) {
	for i := range nodes {
		row, err := s.distanceRow(int(nodes[i].ID), len(nodes))
		if err != nil {
			s.notes.add("NUMA node %d: %v: assuming %d to itself and %d to the others", nodes[i].ID, err, localDistance, remoteDistance)
			row = slices.Repeat([]int{remoteDistance}, len(nodes))
			row[i] = localDistance
		}
		nodes[i].Distances = row
	}
}

func (s *source) distanceRow(id, want int) ([]int, error) {
	text, ok := s.text(nodePath(id, "distance"))
	if !ok {
		return nil, fmt.Errorf("no distances")
	}
	fields := strings.Fields(text)
	if len(fields) != want {
		return nil, fmt.Errorf("%d distances for %d nodes", len(fields), want)
	}
	row := make([]int, want)
	for i, field := range fields {
		n, err := strconv.ParseUint(field, 10, 16)
		if err != nil {
			return nil, fmt.Errorf("distance: %w", err)
		}
		row[i] = int(n)
	}
	return row, nil
}

// mergeEqual merges nodes that claim exactly the same CPUs into the first of these nodes. A table with such nodes
// (emulated or broken NUMA) says nothing about locality.
func (s *source) mergeEqual(nodes []Node) []Node {
	first := map[cpuset.Set]int{}
	merged := map[int]cpuset.Set{}
	var gone []int
	for i, node := range nodes {
		if node.CPUs.IsEmpty() {
			continue
		}
		at, ok := first[node.CPUs]
		if !ok {
			first[node.CPUs] = i
			continue
		}
		merged[at] = merged[at].Add(int(nodes[at].ID)).Add(int(node.ID))
		nodes[at].MemoryBytes += node.MemoryBytes
		nodes[at].HugePageBytes += node.HugePageBytes
		nodes[at].HugePages = joined(nodes[at].HugePages, node.HugePages)
		gone = append(gone, i)
	}
	for _, at := range slices.Sorted(maps.Keys(merged)) {
		s.notes.add("NUMA nodes %s claim the same CPUs %s: taken as one node, %d", merged[at], nodes[at].CPUs, nodes[at].ID)
	}
	slices.Reverse(gone)
	for _, i := range gone {
		nodes = slices.Delete(nodes, i, i+1)
		for j := range nodes {
			nodes[j].Distances = slices.Delete(nodes[j].Distances, i, i+1)
		}
	}
	return nodes
}

// joined returns the sum of two lists of pools, by page size.
func joined(a, b []HugePages) []HugePages {
	all := slices.Clone(a)
	for _, pool := range b {
		at, found := slices.BinarySearchFunc(all, pool, func(has, pool HugePages) int { return cmp.Compare(has.PageKiB, pool.PageKiB) })
		if found {
			all[at].Pages += pool.Pages
		} else {
			all = slices.Insert(all, at, pool)
		}
	}
	return all
}

// separate makes the nodes disjoint. A CPU that several nodes claim stays in the node with the fewest CPUs, the most
// specific; on a tie, in the node with the lower id.
func (s *source) separate(nodes []Node) {
	order := make([]int, len(nodes))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return nodes[a].CPUs.Size() - nodes[b].CPUs.Size() })
	var taken cpuset.Set
	for _, i := range order {
		if twice := nodes[i].CPUs.Intersect(taken); !twice.IsEmpty() {
			s.notes.cpus(twice, "claimed by several NUMA nodes, given to the one with the fewest CPUs")
			nodes[i].CPUs = nodes[i].CPUs.Difference(twice)
		}
		taken = taken.Union(nodes[i].CPUs)
	}
}

// homeless assigns CPUs that no node lists to the only node, if there is only one.
func (s *source) homeless(nodes []Node, online cpuset.Set) {
	for _, node := range nodes {
		online = online.Difference(node.CPUs)
	}
	switch {
	case online.IsEmpty():
	case len(nodes) == 1:
		s.notes.cpus(online, "listed by no NUMA node, taken to be in the only one")
		nodes[0].CPUs = nodes[0].CPUs.Union(online)
	default:
		s.notes.cpus(online, "listed by no NUMA node, in none")
	}
}

// placeInNodes sets the node of every core to the node of its lowest thread.
func (s *source) placeInNodes(cores []Core, nodes []Node) {
	for i := range cores {
		lowest, _ := cores[i].CPUs.Min()
		for _, node := range nodes {
			if node.CPUs.Contains(lowest) {
				cores[i].Node = node.ID
			}
			if node.CPUs.Intersects(cores[i].CPUs) && !cores[i].CPUs.IsSubsetOf(node.CPUs) {
				s.notes.cpus(cores[i].CPUs, "threads of one core in different NUMA nodes, the lowest CPU decides for the core")
			}
		}
	}
}

// nodePath returns the path of a file of one NUMA node.
func nodePath(id int, name string) string {
	return nodeDir + "/node" + strconv.Itoa(id) + "/" + name
}
