// Package topology describes a machine: which CPUs are threads of one core, and which cores share an L3, a die, a
// socket or a NUMA node.
//
// Discover reads a /sys tree through an fs.FS. The live host, a recorded directory and a capture in one text file
// (Recording) therefore use the same code. The result is a plain value without references to the tree. Discover reads
// few files: the thread siblings of every CPU, and all other files once per core or once per domain.
//
// # What is believed
//
// The kernel's tables come from firmware and can be wrong. Each claim therefore needs a witness, and a doubtful case
// gets the interpretation that can do no harm:
//
//   - Two CPUs are one core if each lists the other as thread sibling and all threads of the core have the same list.
//     If only one lists the other, or the lists differ, equal package, die and core ids decide. Without equal ids, each
//     CPU is a core. Ids alone never make a core: core_id repeats across dies and sockets. No machine has more than
//     eight siblings; a longer list is split the same way.
//   - Two cores share a cache if both name the same set of CPUs. A core that names another set stays out, so domains
//     never overlap. A cache may be for some threads of a core only, if no other thread contradicts.
//   - A CPU is in one NUMA node. If several nodes claim it, the node that claims the fewest CPUs has it. Nodes that
//     claim exactly the same CPUs say nothing about locality: they become one node, with the sum of their memory.
//   - A missing or broken distance table becomes 10 on the diagonal and 20 elsewhere, the values that the kernel itself
//     assumes.
//
// Every doubt is a line in Warnings. Only a tree without any online CPU is an error.
//
// # Kinds
//
// A core is an efficiency core if the kernel's own lists say so (cpu_core and cpu_atom under /sys/devices). Without
// these lists, its cpu_capacity decides: it must be below 85 % of the best core's. Without capacities, the highest
// frequency decides in the same way, but only on a machine with one socket. The limit is far from the few percent by
// which favored cores differ.
package topology
