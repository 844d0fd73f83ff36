// Package topology says what a machine looks like: which CPUs are threads of
// one core, which cores share an L3, a die, a socket, a NUMA node.
//
// Discover reads a /sys tree through an fs.FS, so the live host, a recorded
// directory and a capture in one text file (Recording) all take the same path
// through the code. The result is a plain value; nothing refers back to the
// tree. It reads few files: thread siblings of every CPU, all else once per
// core or once per domain.
//
// # What is believed
//
// The kernel's tables come from firmware and can be wrong, so each claim needs
// a witness, and the doubtful case takes the reading that cannot hurt:
//
//   - Two CPUs are one core if each lists the other as thread sibling and all
//     threads of the core have the same list. If only one does, or the lists
//     differ, equal package, die and core ids decide, else each CPU is a core.
//     Ids alone never make a core: core_id repeats across dies and sockets. More
//     than eight siblings exist on no machine; such a list is split the same way.
//   - Two cores share a cache if both name the same set. One that names
//     another set stays out, so domains never overlap. A cache may be for some
//     threads of a core only, if no other thread contradicts.
//   - A CPU is in one NUMA node. If several claim it, the one that claims the
//     fewest CPUs has it; nodes that claim exactly the same CPUs tell nothing
//     about locality and become one node with their memory added up.
//   - A missing or broken distance table becomes 10 on the diagonal and 20
//     elsewhere, the values the kernel itself assumes.
//
// Whatever was doubtful is a line in Warnings. Only a tree without any online
// CPU is an error.
//
// # Kinds
//
// A core is an efficiency core if the kernel's own lists say so (cpu_core and
// cpu_atom under /sys/devices), else if its cpu_capacity, else, on a machine
// with one socket, its highest frequency is below 85 % of the best core's.
// The limit is far from the few percent by which favored cores differ.
package topology
