package kernel

import (
	"fmt"
	"strconv"
	"strings"
)

// Machine is a computer that exists only as QEMU arguments.
type Machine struct {
	Name    string
	Sockets int
	Dies    int // Per socket.
	Cores   int // Per die.
	Threads int // Per core.
	Nodes   int // NUMA nodes; each gets an equal share of consecutive CPUs.
	MiB     int // Memory of the whole machine, in equal shares.

	// Counted means that the machine's clock counts instructions: each takes 2 ns. One thread emulates all processors,
	// in turn. Other work of the host changes no duration there, but an instruction takes as long as any other.
	Counted bool
}

// twoSockets has two sockets with a NUMA node each and sibling threads: the smallest machine on which socket, node,
// core and thread are four different things. Its root file system is in memory, mostly on node 0. The image of the
// whole matrix takes 350 MiB, and the mover needs 160 MiB free there to move 64 MiB.
func twoSockets() Machine {
	return Machine{Name: "vm-2s2n-smt", Sockets: 2, Dies: 1, Cores: 2, Threads: 2, Nodes: 2, MiB: 2048}
}

// TwoNodes returns the machine of twoSockets with another amount of memory.
func TwoNodes(mib int) Machine {
	m := twoSockets()
	m.Name, m.MiB = "vm-2n-memory", mib
	return m
}

// Wide returns a machine of so many single-threaded cores that share an L3, so that the scheduler balances them in one
// domain.
func Wide(cores int) Machine {
	return Machine{Name: "vm-wide", Sockets: 1, Dies: 1, Cores: cores, Threads: 1, Nodes: 1, MiB: 2048}
}

// Siblings returns a machine of so many cores of two threads that share an L3.
func Siblings(cores int) Machine {
	return Machine{Name: "vm-smt", Sockets: 1, Dies: 1, Cores: cores, Threads: 2, Nodes: 1, MiB: 2048}
}

// Machines returns the machines that `vm record` writes into testdata/machines.
func Machines() []Machine {
	return []Machine{
		twoSockets(),
		// Two nodes in each of four sockets: three different distances.
		{Name: "vm-8n", Sockets: 4, Dies: 2, Cores: 1, Threads: 2, Nodes: 8, MiB: 2048},
	}
}

// CPUs returns the number of hardware threads.
func (m Machine) CPUs() int { return m.Sockets * m.Dies * m.Cores * m.Threads }

// distance returns the firmware's distance of two nodes: the same node, one socket, or across sockets.
func (m Machine) distance(a, b int) int {
	perSocket := max(1, m.Nodes/m.Sockets)
	switch {
	case a == b:
		return 10
	case a/perSocket == b/perSocket:
		return 12
	}
	return 21
}

// Arguments returns the QEMU arguments that describe the machine: how guest code is executed, processors, nodes and
// memory, and no devices. The host allocates memory when the guest first touches it.
func (m Machine) Arguments() []string {
	processors := processor()
	if m.Counted {
		processors = counted()
	}
	args := append(processors,
		"-machine", "q35", "-nodefaults", "-no-user-config", "-display", "none",
		"-m", strconv.Itoa(m.MiB),
		"-smp", fmt.Sprintf("%d,sockets=%d,dies=%d,cores=%d,threads=%d",
			m.CPUs(), m.Sockets, m.Dies, m.Cores, m.Threads),
	)
	share := m.CPUs() / m.Nodes
	for n := range m.Nodes {
		args = append(args,
			"-object", fmt.Sprintf("memory-backend-ram,id=m%d,size=%dM", n, m.MiB/m.Nodes),
			"-numa", fmt.Sprintf("node,nodeid=%d,cpus=%d-%d,memdev=m%d", n, n*share, (n+1)*share-1, n))
	}
	for a := range m.Nodes {
		for b := range m.Nodes {
			args = append(args, "-numa", fmt.Sprintf("dist,src=%d,dst=%d,val=%d", a, b, m.distance(a, b)))
		}
	}
	return args
}

// processor returns the arguments that choose how QEMU executes guest code: by emulation, which works on every host.
func processor() []string { return []string{"-accel", "tcg,thread=multi", "-cpu", model} }

// counted is processor with the number of executed instructions as the guest's clock.
func counted() []string {
	return []string{"-accel", "tcg,thread=single", "-icount", "shift=1,sleep=off", "-cpu", model}
}

// model is the emulated processor. Some properties differ from "everything the emulator has". With cx16, QEMU 7.2
// damages the flags around cmpxchg16b, and the guest panics in kmalloc sooner or later. la57 costs a fifth level of
// page tables. Kernels before 6.9 find the sibling threads of an AMD processor only in a leaf that the emulator lacks.
// The protections of the kernel against programs (smap, smep, pku, umip) make the emulator leave its translated code at
// every copy from or to a program. With erms the kernel fills and copies memory by one instruction that is emulated
// byte by byte: a page fault then takes twice as long, a large read five times.
const model = "max,-cx16,-la57,-smap,-smep,-pku,-umip,-erms,vendor=GenuineIntel"

// CommandLine joins the parameters of the guest's kernel, after the parameters of every guest.
func CommandLine(params ...string) string {
	fixed := []string{
		"console=ttyS0", "loglevel=5", // Warnings and worse: the console matters only in a failure.
		"panic=-1", // With -no-reboot a panic ends QEMU at once.
		"psi=1", "mitigations=off",
		"random.trust_cpu=on", // No waiting for entropy in a machine without devices.
	}
	return strings.Join(append(fixed, params...), " ")
}
