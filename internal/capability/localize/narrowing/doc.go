// Package narrowing decides when the memory nodes of a running group may be narrowed.
//
// On cgroup v2 the write itself moves pages before write(2) returns: all pages that a process of the group has mapped
// on a lost node, including page cache and memory of others. See cpuset_migrate_mm with MPOL_MF_MOVE_ALL, and the flush
// of its queue, in kernel/cgroup/cpuset.c. Before a patch of September 2025 a program that attaches a process to a
// cpuset in that time waits with the lock of all control groups. On both versions the write rebinds memory policies,
// and widening does not restore them. A write also rebinds policies for nodes whose position changes: from 1 to 0-1 a
// policy for node 1 becomes one for node 0. Linux does not check the room for the pages, and the write never returns if
// a real-time thread starves a CPU. The kernel repeats all this work for each thread, even if no page has to move.
//
// So the package first examines the group: its memory by the memory controller, then the lines of numa_maps of every
// process in it. The group may be narrowed under these conditions:
//
//   - At most 64 MiB are on other nodes.
//   - The remaining nodes have room for that and for its limit, after the limits of other groups bound there.
//   - No policy would be rebound, and nothing is pinned for a device.
//   - The call ends, within about a second.
//
// A value that cannot be read forbids narrowing: a group that stays wide loses nothing, since its CPUs are local. For a
// group that only gets more nodes, the time matters, and so do policies if nodes change position. If no node changes
// position, processes that cannot be inspected forbid nothing, since the group's CPUs may be far from its present
// nodes.
//
// Checks run beside the caller, one at a time, at a quarter of one CPU. Their results are valid for five seconds. A
// group that may not be narrowed is checked again after a minute, then after twice as long each time, up to an hour.
package narrowing
