package topology

import (
	"fmt"
	"math"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// Spec returns t as the spec of a NodeTopology, including its Hash. The spec has no field for Caches, NoHzFull and
// Warnings, nor for the id of a core that is not its lowest CPU.
func (t *Topology) Spec() v1alpha1.NodeTopologySpec {
	s := v1alpha1.NodeTopologySpec{
		Hash:         t.Hash(),
		Online:       list(t.Online),
		Offline:      list(t.Offline),
		ReservedCPUs: list(t.Reserved),
		IsolatedCPUs: list(t.Isolated),
	}
	for _, socket := range t.Sockets {
		s.Sockets = append(s.Sockets, v1alpha1.CPUGroup{ID: int64(socket.ID), CPUs: list(socket.CPUs)})
	}
	for _, die := range t.Dies {
		s.Dies = append(s.Dies, v1alpha1.DieGroup{ID: int64(die.ID), Socket: int64(die.Socket), CPUs: list(die.CPUs)})
	}
	for _, node := range t.Nodes {
		distances := make([]int64, len(node.Distances))
		for i, distance := range node.Distances {
			distances[i] = int64(distance)
		}
		s.NUMANodes = append(s.NUMANodes, v1alpha1.NUMANode{
			ID: int64(node.ID), CPUs: list(node.CPUs), MemoryBytes: node.MemoryBytes, HugePageBytes: node.HugePageBytes,
			HugePages: poolsOf(node.HugePages), Distances: distances,
		})
	}
	for _, domain := range t.L3 {
		s.L3 = append(s.L3, v1alpha1.CPUGroup{ID: int64(domain.ID), CPUs: list(domain.CPUs)})
	}
	for _, core := range t.Cores {
		s.Cores = append(s.Cores, list(core.CPUs))
	}
	s.EfficiencyCPUs = list(t.Efficiency())
	for _, device := range t.Devices {
		s.Devices = append(s.Devices, v1alpha1.NodeDevice{Resource: device.Resource, PerNUMANode: device.Nodes})
	}
	return s
}

// Counts returns the numbers of sockets, nodes, L3 domains, cores and CPUs, for the status of a NodeTopology.
func (t *Topology) Counts() v1alpha1.NodeTopologyCounts {
	return v1alpha1.NodeTopologyCounts{
		Sockets: int64(len(t.Sockets)), NUMANodes: int64(len(t.Nodes)), L3: int64(len(t.L3)),
		Cores: int64(len(t.Cores)), CPUs: int64(t.Online.Size()),
	}
}

// FromSpec returns the machine that a NodeTopology describes. Any client with write access to the API may have written
// it. FromSpec therefore checks everything that Decode checks, that the hash matches the contents, and that sums of the
// numbers cannot overflow. A violation is ErrInvalid; the message names the field.
func FromSpec(s v1alpha1.NodeTopologySpec) (*Topology, error) {
	t, err := fromSpec(s)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return t, nil
}

// HashOf returns the hash that a spec should have, for a spec written by hand. It ignores the present hash, and
// otherwise checks the spec as FromSpec does.
func HashOf(s v1alpha1.NodeTopologySpec) (string, error) {
	t, err := machineOf(s)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return t.Hash(), nil
}

func fromSpec(s v1alpha1.NodeTopologySpec) (*Topology, error) {
	t, err := machineOf(s)
	if err != nil {
		return nil, err
	}
	if hash := t.Hash(); s.Hash != hash {
		return nil, fmt.Errorf("hash %q: allowed: %q, that of the machine described", s.Hash, hash)
	}
	return t, nil
}

// machineOf returns the machine that a spec describes, regardless of the spec's hash.
func machineOf(s v1alpha1.NodeTopologySpec) (*Topology, error) {
	r := &specReader{}
	r.short("sockets", len(s.Sockets), maxSpecGroups)
	r.short("dies", len(s.Dies), maxSpecGroups)
	r.short("numaNodes", len(s.NUMANodes), maxSpecNodes)
	r.short("l3", len(s.L3), maxSpecGroups)
	r.short("cores", len(s.Cores), maxSpecGroups)
	r.short("devices", len(s.Devices), maxSpecDevices)
	if r.err != nil {
		return nil, r.err
	}
	d := r.document(s)
	slow := r.set("efficiencyCPUs", s.EfficiencyCPUs)
	if r.err != nil {
		return nil, r.err
	}
	if err := d.setKinds(slow); err != nil {
		return nil, err
	}
	return d.topology()
}

const (
	maxNodeID   = 1023
	maxID       = math.MaxUint32 // of a kernel's cache id
	maxDistance = math.MaxUint16 // as in distanceRow
	// maxMemory is 1 PiB. maxMemory times maxSpecNodes is far from an overflow.
	maxMemory     = 1 << 50
	maxSpecNodes  = 256
	maxSpecGroups = 1024 // the largest possible number of CPUs
	// maxDevices is the limit for one resource in a NUMA node. It is more than a kubelet lists.
	maxDevices     = 1 << 20
	maxSpecDevices = 16
	maxPools       = 8 // no architecture has so many page sizes
)

// specReader reads the parts of a spec and remembers the first problem.
type specReader struct{ err error }

func (r *specReader) document(s v1alpha1.NodeTopologySpec) *document {
	d := &document{Topology: Topology{
		Online:   r.set("online", s.Online),
		Offline:  r.set("offline", s.Offline),
		Reserved: r.set("reservedCPUs", s.ReservedCPUs),
		Isolated: r.set("isolatedCPUs", s.IsolatedCPUs),
	}}
	for i, socket := range s.Sockets {
		field := fmt.Sprintf("sockets[%d]", i)
		d.Sockets = append(d.Sockets, Socket{ID: SocketID(r.number(field+".id", socket.ID, 0, maxID)), CPUs: r.set(field+".cpus", socket.CPUs)})
	}
	for i, die := range s.Dies {
		field := fmt.Sprintf("dies[%d]", i)
		d.Dies = append(d.Dies, Die{
			ID:     DieID(r.number(field+".id", die.ID, 0, maxID)),
			Socket: SocketID(r.number(field+".socket", die.Socket, None, maxID)),
			CPUs:   r.set(field+".cpus", die.CPUs),
		})
	}
	for i, domain := range s.L3 {
		field := fmt.Sprintf("l3[%d]", i)
		d.L3 = append(d.L3, L3{ID: L3ID(r.number(field+".id", domain.ID, 0, maxID)), CPUs: r.set(field+".cpus", domain.CPUs)})
	}
	for i, cpus := range s.Cores {
		d.Cores = append(d.Cores, coreDocument{CPUs: r.set(fmt.Sprintf("cores[%d]", i), cpus)})
	}
	r.nodes(d, s.NUMANodes)
	for _, device := range s.Devices {
		d.Devices = append(d.Devices, Device{Resource: device.Resource, Nodes: device.PerNUMANode})
	}
	return d
}

func (r *specReader) nodes(d *document, nodes []v1alpha1.NUMANode) {
	for i, node := range nodes {
		field := fmt.Sprintf("numaNodes[%d]", i)
		distances := make([]int, len(node.Distances))
		for j, distance := range node.Distances {
			distances[j] = int(r.number(fmt.Sprintf("%s.distances[%d]", field, j), distance, 0, maxDistance))
		}
		d.Nodes = append(d.Nodes, Node{
			ID:            NodeID(r.number(field+".id", node.ID, 0, maxNodeID)),
			CPUs:          r.set(field+".cpus", node.CPUs),
			MemoryBytes:   r.number(field+".memoryBytes", node.MemoryBytes, 0, maxMemory),
			HugePageBytes: r.number(field+".hugePageBytes", node.HugePageBytes, 0, maxMemory),
			HugePages:     r.pools(field+".hugePages", node.HugePages),
			Distances:     distances,
		})
	}
}

// pools reads the huge pages of a node. checkPools verifies their order and sum later.
func (r *specReader) pools(field string, pools []v1alpha1.HugePagePool) []HugePages {
	r.short(field, len(pools), maxPools)
	var all []HugePages
	for i, pool := range pools {
		all = append(all, HugePages{
			PageKiB: r.number(fmt.Sprintf("%s[%d].pageKiB", field, i), pool.PageKiB, 1, maxMemory/kibibyte),
			Pages:   r.number(fmt.Sprintf("%s[%d].pages", field, i), pool.Pages, 1, maxMemory/kibibyte),
		})
	}
	return all
}

// poolsOf is the inverse of pools.
func poolsOf(pools []HugePages) []v1alpha1.HugePagePool {
	var all []v1alpha1.HugePagePool
	for _, pool := range pools {
		all = append(all, v1alpha1.HugePagePool{PageKiB: pool.PageKiB, Pages: pool.Pages})
	}
	return all
}

func (r *specReader) set(field string, list v1alpha1.CPUList) cpuset.Set {
	set, err := cpuset.Parse(string(list))
	if err != nil {
		r.fail("%s %w", field, err)
	}
	return set
}

func (r *specReader) short(field string, length, most int) {
	if length > most {
		r.fail("%s: %d of them: allowed: at most %d", field, length, most)
	}
}

func (r *specReader) number(field string, value, low, high int64) int64 {
	if value < low || value > high {
		r.fail("%s %d: allowed: %d to %d", field, value, low, high)
	}
	return value
}

func (r *specReader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf(format, args...)
	}
}

// setKinds sets the kind of each core, given the CPUs of the efficiency cores.
func (d *document) setKinds(slow cpuset.Set) error {
	var seen cpuset.Set
	for i := range d.Cores {
		core := &d.Cores[i]
		switch {
		case slow.IsEmpty():
		case core.CPUs.IsSubsetOf(slow):
			core.Kind, seen = KindEfficiency, seen.Union(core.CPUs)
		case core.CPUs.Intersects(slow):
			return fmt.Errorf("efficiencyCPUs %q: allowed: whole cores, not a part of %q", slow, core.CPUs)
		default:
			core.Kind = KindPerformance
		}
	}
	if seen != slow {
		return fmt.Errorf("efficiencyCPUs %q: allowed: CPUs of cores, not %q", slow, slow.Difference(seen))
	}
	return nil
}

// list formats a set as a CPU list, with strides if that is shorter. Lists without strides are long if firmware numbers
// CPUs in turn across sockets or nodes.
func list(s cpuset.Set) v1alpha1.CPUList {
	plain, strided := s.String(), strides(s)
	if len(strided) < len(plain) {
		return v1alpha1.CPUList(strided)
	}
	return v1alpha1.CPUList(plain)
}

// strides returns a list in which a range with a stride replaces three or more runs of equal length and distance.
func strides(s cpuset.Set) string {
	runs := runsOf(s)
	var b []byte
	for len(runs) > 0 {
		n := even(runs)
		first, last := runs[0], runs[n-1]
		if len(b) > 0 {
			b = append(b, ',')
		}
		switch {
		case n > 1:
			b = fmt.Appendf(b, "%d-%d:%d/%d", first[0], last[1], first[1]-first[0]+1, runs[1][0]-first[0])
		case first[0] == first[1]:
			b = fmt.Appendf(b, "%d", first[0])
		default:
			b = fmt.Appendf(b, "%d-%d", first[0], first[1])
		}
		runs = runs[n:]
	}
	return string(b)
}

// even returns how many of the first runs have the same length and distance. It returns 1 if they are fewer than three.
func even(runs [][2]int) int {
	const few = 3
	n := 1
	for n < len(runs) && runs[n][1]-runs[n][0] == runs[0][1]-runs[0][0] && runs[n][0]-runs[n-1][0] == runs[1][0]-runs[0][0] {
		n++
	}
	if n < few {
		return 1
	}
	return n
}

// runsOf returns the first and last CPU of each run of consecutive CPUs.
func runsOf(s cpuset.Set) [][2]int {
	var runs [][2]int
	for cpu := range s.All() {
		if n := len(runs); n > 0 && runs[n-1][1] == cpu-1 {
			runs[n-1][1] = cpu
			continue
		}
		runs = append(runs, [2]int{cpu, cpu})
	}
	return runs
}
