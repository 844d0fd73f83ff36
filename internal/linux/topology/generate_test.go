package topology_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/berth-project/berth/internal/value/cpuset"
)

//go:generate go test . -run TestMachines -update

// none means that a CPU is in no such group.
const none = -1

// cpu is one CPU of a generated machine. CPUs with the same group number are in the same group.
type cpu struct {
	offline      bool
	socket, die  int
	coreID, core int
	l2, l3, node int
	capacity     int // cpu_capacity, 0: no file
	maxKHz       int // cpufreq/cpuinfo_max_freq, 0: no file
}

// node is one NUMA node of a generated machine.
type node struct{ id, memoryKB int }

// machine is the truth from which files are generated.
type machine struct {
	cpus     map[int]cpu
	nodes    []node // empty: no node directory
	distance func(a, b node) int
	noDies   bool
	masks    bool // *map files only, as on old kernels
}

// symmetric builds a machine from counts. The threads of a core are numbered far apart, as on x86, or consecutively.
type symmetric struct {
	sockets, nodes, l3s, cores, threads int // each per unit of the previous kind
	adjacent                            bool
}

func (s symmetric) machine() machine {
	m := machine{cpus: map[int]cpu{}, distance: func(a, b node) int { return distance(a.id, b.id) }}
	total := s.sockets * s.nodes * s.l3s * s.cores
	for core := range total {
		l3 := core / s.cores
		nodeID := l3 / s.l3s
		socket := nodeID / s.nodes
		for thread := range s.threads {
			id := thread*total + core
			if s.adjacent {
				id = core*s.threads + thread
			}
			m.cpus[id] = cpu{socket: socket, core: core, coreID: core % (total / s.sockets), l2: core, l3: l3, node: nodeID}
		}
	}
	for id := range s.sockets * s.nodes {
		m.nodes = append(m.nodes, node{id, 8 << 20})
	}
	return m
}

func distance(a, b int) int {
	if a == b {
		return 10
	}
	return 21
}

// where returns the online CPUs of a group.
func (m machine) where(same func(cpu) int, group int) cpuset.Set {
	var s cpuset.Set
	for id, c := range m.cpus {
		if !c.offline && same(c) == group {
			s = s.Add(id)
		}
	}
	return s
}

func (m machine) change(from, to int, edit func(id int, c *cpu)) machine {
	for id := from; id <= to; id++ {
		if c, ok := m.cpus[id]; ok {
			edit(id, &c)
			m.cpus[id] = c
		}
	}
	return m
}

// files returns the machine's files, in the kernel's format.
func (m machine) files() map[string]string {
	f := map[string]string{}
	online := m.where(func(cpu) int { return 0 }, 0)
	var present cpuset.Set
	for id := range m.cpus {
		present = present.Add(id)
	}
	m.set(f, cpuPath+"online", online)
	m.set(f, cpuPath+"present", present)
	f[cpuPath+"offline"] = present.Difference(online).String() + "\n"
	f[cpuPath+"isolated"] = "\n"
	for _, id := range slices.Sorted(maps.Keys(m.cpus)) {
		if c := m.cpus[id]; !c.offline {
			m.cpuFiles(f, fmt.Sprintf(cpuPath+"cpu%d/", id), c)
		}
	}
	m.nodeFiles(f)
	return f
}

const (
	cpuPath  = "sys/devices/system/cpu/"
	nodePath = "sys/devices/system/node/"
)

// set writes a list, and also a mask in directories that have both.
func (m machine) set(f map[string]string, name string, s cpuset.Set) {
	dir, base, _ := strings.Cut(name, "|")
	switch {
	case base == "":
		f[name] = s.String() + "\n"
	case m.masks:
		_, mask, _ := strings.Cut(base, "|")
		f[dir+mask] = s.Mask() + "\n"
	default:
		list, _, _ := strings.Cut(base, "|")
		f[dir+list] = s.String() + "\n"
	}
}

func (m machine) cpuFiles(f map[string]string, dir string, c cpu) {
	m.set(f, dir+"topology/|thread_siblings_list|thread_siblings", m.where(func(c cpu) int { return c.core }, c.core))
	f[dir+"topology/core_id"] = fmt.Sprintln(c.coreID)
	f[dir+"topology/physical_package_id"] = fmt.Sprintln(c.socket)
	if !m.noDies {
		f[dir+"topology/die_id"] = fmt.Sprintln(c.die)
		m.set(f, dir+"topology/|die_cpus_list|die_cpus", m.where(func(o cpu) int { return o.socket<<16 + o.die }, c.socket<<16+c.die))
	}
	cache := func(index, level int, kind string, group func(cpu) int) {
		if group(c) == none {
			return
		}
		dir := fmt.Sprintf("%scache/index%d/", dir, index)
		f[dir+"level"] = fmt.Sprintln(level)
		f[dir+"type"] = kind + "\n"
		f[dir+"id"] = fmt.Sprintln(group(c))
		m.set(f, dir+"|shared_cpu_list|shared_cpu_map", m.where(group, group(c)))
	}
	cache(0, 1, "Data", func(c cpu) int { return c.core })
	cache(1, 1, "Instruction", func(c cpu) int { return c.core })
	cache(2, 2, "Unified", func(c cpu) int { return c.l2 })
	cache(3, 3, "Unified", func(c cpu) int { return c.l3 })
	if c.capacity > 0 {
		f[dir+"cpu_capacity"] = fmt.Sprintln(c.capacity)
	}
	if c.maxKHz > 0 {
		f[dir+"cpufreq/cpuinfo_max_freq"] = fmt.Sprintln(c.maxKHz)
	}
}

func (m machine) nodeFiles(f map[string]string) {
	if len(m.nodes) == 0 {
		f["proc/meminfo"] = "MemTotal:       16777216 kB\nMemFree:        1 kB\n"
		return
	}
	var ids cpuset.Set
	for _, n := range m.nodes {
		ids = ids.Add(n.id)
		dir := fmt.Sprintf(nodePath+"node%d/", n.id)
		m.set(f, dir+"|cpulist|cpumap", m.where(func(c cpu) int { return c.node }, n.id))
		f[dir+"meminfo"] = fmt.Sprintf("Node %d MemTotal:       %d kB\nNode %d MemFree:        1 kB\n", n.id, n.memoryKB, n.id)
		var row []string
		for _, other := range m.nodes {
			row = append(row, fmt.Sprint(m.distance(n, other)))
		}
		f[dir+"distance"] = strings.Join(row, " ") + "\n"
	}
	m.set(f, nodePath+"online", ids)
}
