// Package narrowing says when the memory nodes of a group that runs may be narrowed.
//
// The write itself moves pages on cgroup v2: all that a process of the group has mapped on a node that
// leaves, page cache and memory of others included, before write(2) returns (kernel/cgroup/cpuset.c,
// cpuset_migrate_mm with MPOL_MF_MOVE_ALL and the flush of its queue). Before a patch of September 2025
// whoever attaches a process to a cpuset meanwhile waits with the lock of all control groups. On both
// versions the write rebinds memory policies, and widening does not give them back; it rebinds those of
// nodes that have another place then, too: from 1 to 0-1 a policy for node 1 is one for node 0. Linux takes the room
// for the pages without asking, and never returns where a real-time thread starves a CPU. And it does all of that
// once for each thread, also where no page has to move.
//
// So a group is looked at first: its memory by the memory controller, then the lines of numa_maps of
// every process in it. It may be narrowed while at most 64 MiB are elsewhere, the nodes that stay have
// room for that and for what its limit allows, beside what those of others that are bound there allow,
// no policy would be rebound, nothing is pinned for a device, and the call ends, within about a second. All that
// cannot be read counts against it: a group that stays wide loses nothing, since its CPUs are local. Of a group
// that gets more nodes the time counts, and policies where nodes have other places then: what cannot be read does
// not, since its CPUs may be far from the nodes that it has.
//
// Looks are made beside the caller, one at a time, at a quarter of one CPU. What they found counts for
// five seconds. A group that may not be narrowed is looked at again after a minute, then after twice as
// long each time, up to an hour.
package narrowing
