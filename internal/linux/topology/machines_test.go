package topology_test

import (
	"maps"
	"slices"
	"strings"
)

// generated is one machine under testdata/machines that this package generates.
type generated struct {
	name string
	// about becomes the comment at the top of the file.
	about string
	// sound machines cause no warning and are compared with the truth.
	sound   bool
	machine machine
	// files edits the files after their generation from the machine.
	files func(map[string]string)
}

func catalog() []generated {
	return slices.Concat(servers(), unusual(), broken())
}

func servers() []generated {
	two := func(a, b node) int {
		switch {
		case a.id == b.id:
			return 10
		case a.id/4 == b.id/4:
			return 12
		}
		return 32
	}
	nps4 := symmetric{sockets: 2, nodes: 4, l3s: 2, cores: 2, threads: 2}.machine()
	nps4.distance = two
	return []generated{
		{
			name: "one-socket-6c", about: "One socket, six cores, no SMT.", sound: true,
			machine: symmetric{1, 1, 1, 6, 1, false}.machine(),
		},
		{
			name: "two-socket-ht", about: "Two sockets, each eight cores with two threads and one NUMA node.", sound: true,
			machine: symmetric{2, 1, 1, 8, 2, false}.machine(),
		},
		{
			name: "ccx-nps1", about: "One socket and one NUMA node with four L3 domains of four cores with two threads.", sound: true,
			machine: symmetric{1, 1, 4, 4, 2, false}.machine(),
		},
		{
			name: "ccx-nps4", about: "Two sockets of four NUMA nodes, each with two L3 domains of two cores; three distances.", sound: true,
			machine: nps4,
		},
		{
			name: "arm64-80c", about: "80 cores of one thread, pairs share an L2, no L3, no dies, one capacity.", sound: true,
			machine: arm64(),
		},
		{
			name: "snc-interleaved", about: "Two sockets of two NUMA nodes below one L3; CPUs are numbered across nodes, and each socket has a memory-only node.", sound: true,
			machine: interleaved(),
		},
		{
			name: "nodes-64", about: "64 NUMA nodes of one core with two threads.", sound: true,
			machine: symmetric{8, 8, 1, 1, 2, true}.machine(),
		},
	}
}

func arm64() machine {
	m := symmetric{1, 1, 1, 80, 1, false}.machine()
	m.noDies = true
	return m.change(0, 79, func(id int, c *cpu) { c.l3, c.l2, c.capacity = none, id/2, 1024 })
}

func interleaved() machine {
	m := machine{cpus: map[int]cpu{}, distance: func(a, b node) int {
		switch {
		case a.id == b.id:
			return 10
		case a.id%2 != b.id%2:
			return 28
		case max(a.id, b.id) > 3:
			return 17
		}
		return 11
	}}
	for id := range 56 {
		m.cpus[id] = cpu{socket: id % 2, core: id % 28, coreID: id % 28 / 2, l2: id % 28, l3: id % 2, node: id % 4}
	}
	for id := range 6 {
		m.nodes = append(m.nodes, node{id, 32 << 20})
	}
	return m
}

func unusual() []generated {
	smt4 := symmetric{2, 1, 1, 6, 4, true}.machine()
	smt4.noDies = true
	smt4.nodes = []node{{0, 64 << 20}, {8, 64 << 20}, {252, 16 << 20}, {253, 16 << 20}, {254, 16 << 20}, {255, 16 << 20}}
	smt4.change(0, 47, func(_ int, c *cpu) { c.node, c.l3 = c.node*8, c.core })
	smt4.change(16, 23, func(_ int, c *cpu) { c.offline = true })

	cxl := symmetric{2, 1, 1, 4, 1, false}.machine()
	cxl.nodes = []node{{0, 8 << 20}, {1, 0}, {2, 32 << 20}}

	off := symmetric{2, 2, 1, 2, 2, false}.machine().change(0, 8, func(id int, c *cpu) { c.offline = id == 0 || id == 8 })
	off.change(1, 1, func(_ int, c *cpu) { c.offline = true })
	off.change(9, 9, func(_ int, c *cpu) { c.offline = true })
	off.nodes = off.nodes[1:]

	masks := symmetric{2, 1, 1, 18, 2, false}.machine()
	masks.masks, masks.noDies = true, true

	above := symmetric{4, 1, 1, 4, 1, false}.machine().change(0, 15, func(_ int, c *cpu) { c.node = c.socket / 2 })
	above.nodes = above.nodes[:2]

	dies := symmetric{2, 2, 1, 4, 2, false}.machine().change(0, 31, func(_ int, c *cpu) { c.die, c.coreID = c.node%2, c.core%4 })

	return []generated{
		{name: "hybrid-pe", about: "Six cores with two threads and eight of one thread in clusters of four that share an L2; the kernel lists both kinds.", sound: true, machine: hybrid(), files: kindLists},
		{name: "hybrid-frequency", about: "As hybrid-pe, without the kernel's lists, with favored cores, and two cores outside the L3.", sound: true, machine: hybridFrequency()},
		{name: "smt4-sparse", about: "Two sockets of cores with four threads, NUMA nodes 0 and 8, memory of accelerators as nodes 252-255, CPUs 16-23 off.", sound: true, machine: smt4},
		{name: "memory-only-node", about: "Node 1 has CPUs and no memory, node 2 memory and no CPUs.", sound: true, machine: cxl},
		{name: "cpu0-off", about: "CPUs 0, 1, 8 and 9 and with them NUMA node 0 are off.", sound: true, machine: off},
		{name: "masks-only", about: "An old kernel: masks instead of lists, no dies; 72 CPUs make masks of three words.", sound: true, machine: masks},
		{name: "node-above-socket", about: "Four sockets in two NUMA nodes.", sound: true, machine: above},
		{name: "core-ids-repeat", about: "Two dies in each socket that number their cores alike: socket and core_id name two cores.", sound: true, machine: dies},
	}
}

func hybrid() machine {
	m := symmetric{1, 1, 1, 6, 2, true}.machine()
	for i := range 8 {
		m.cpus[12+i] = cpu{coreID: 24 + i, core: 6 + i, l2: 100 + i/4}
	}
	return m
}

func hybridFrequency() machine {
	m := hybrid().change(0, 11, func(id int, c *cpu) { c.maxKHz = 5_100_000 - id/2*40_000 })
	m.change(12, 19, func(_ int, c *cpu) { c.maxKHz = 3_800_000 })
	return m.change(18, 19, func(_ int, c *cpu) { c.l3, c.l2, c.maxKHz = none, 102, 2_500_000 })
}

func kindLists(f map[string]string) {
	f["sys/devices/cpu_core/cpus"] = "0-11\n"
	f["sys/devices/cpu_atom/cpus"] = "12-19\n"
}

func broken() []generated {
	noPackage := symmetric{1, 1, 1, 4, 1, false}.machine().change(0, 3, func(_ int, c *cpu) { c.socket, c.l3, c.die = none, none, none })
	noPackage.nodes = nil
	return []generated{
		{name: "no-package", about: "Package and die ids -1, no L3, no NUMA directory.", machine: noPackage},
		{
			name: "nodes-claim-all", about: "Four NUMA nodes of which each claims all CPUs.",
			machine: symmetric{1, 4, 1, 2, 2, false}.machine(),
			files: func(f map[string]string) {
				for _, name := range slices.Sorted(maps.Keys(f)) {
					if strings.HasSuffix(name, "/cpulist") {
						f[name] = "0-15\n"
					}
				}
			},
		},
		{
			name: "tables-contradict", about: "CPU 0 claims all CPUs as siblings and as sharers of its L3, CPU 9 has no siblings, node 1 also claims node 0's CPU 3, distances of node 1 are short, CPU 5 has another L2.",
			machine: symmetric{2, 1, 1, 4, 2, false}.machine(),
			files: func(f map[string]string) {
				f[cpuPath+"cpu0/topology/thread_siblings_list"] = "0-15\n"
				f[cpuPath+"cpu0/cache/index3/shared_cpu_list"] = "0-15\n"
				delete(f, cpuPath+"cpu9/topology/thread_siblings_list")
				f[nodePath+"node1/cpulist"] = "3-7,12-15\n"
				f[nodePath+"node1/distance"] = "21\n"
				f[cpuPath+"cpu5/cache/index2/shared_cpu_list"] = "5-7,13\n"
			},
		},
		{
			name: "careless-recording", about: "Trailing NULs, empty cache maps, no lists of CPUs or nodes, an isolcpus that names absent CPUs, (null), a text where a number belongs.",
			machine: symmetric{1, 2, 1, 2, 2, false}.machine(),
			files: func(f map[string]string) {
				for name, text := range f {
					f[name] = text + "\x00\x00\n"
				}
				for _, name := range []string{cpuPath + "online", cpuPath + "present", cpuPath + "offline", nodePath + "online"} {
					delete(f, name)
				}
				for _, cpu := range []string{"0", "1", "4", "5"} {
					f[cpuPath+"cpu"+cpu+"/cache/index2/shared_cpu_list"] = ""
				}
				f[cpuPath+"cpu3/online"] = "0\n"
				f[cpuPath+"isolated"] = "2-3,64-127\n"
				f[cpuPath+"nohz_full"] = "  (null)\n"
				f[nodePath+"node1/meminfo"] = "Node 1 MemTotal: much kB\n"
			},
		},
	}
}
