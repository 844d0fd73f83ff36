// Package cgroup reads control groups on v1, v2 and hybrid hosts, and determines the files in which settings are
// written. It contains no policy and writes nothing.
//
// A Host knows the mounted hierarchies, from /proc/self/mountinfo. A controller belongs to the v1 hierarchy that names
// it in its mount options. Otherwise it belongs to the v2 hierarchy, if cgroup.controllers lists it there. The
// controllers cpu, cpuacct and cpuset may be in three hierarchies. If a hierarchy has several mounts (bind mounts,
// containers), the Host prefers a mount that shows the hierarchy from its root, then a writable mount. A group is named
// by its path relative to each hierarchy's root, which is the same in all hierarchies. The controllers memory and
// hugetlb are optional: only Group.Memory reports a missing memory controller, and it skips a missing hugetlb.
//
// A Group keeps the group's directory open in every hierarchy that has it. It therefore never confuses a removed group
// with a new group of the same name: reads then return ErrNoGroup, and the identity differs. Polled files are opened
// once and read by pread.
//
// Settings are values of a Knob, written the same way for both versions: "QUOTA PERIOD" and "BURST PERIOD" in
// microseconds. QUOTA is "max" without a limit. The values include the period because the kernel changes it: if a
// period is too short for the timer, the kernel doubles period, quota and burst together. Same recognizes the doubling.
// Encode scales a value to the period in force where it writes only a part of the value (v1).
//
// Precedence is one knob over two files. An idle group has no weight and accepts none, so its former weight is lost
// when it stops being idle. A change from idle to a weight needs two writes; between them the kernel's default weight
// applies.
//
// CPUs and memory nodes are lists, or Inherit for a v2 group without its own list. The list in effect may differ from
// the written list. v1 refuses a list that is no subset of the parent's, and forgets CPUs that go offline. v2 accepts
// every list and uses its intersection with the parent's list, or all of the parent's list if the intersection is
// empty. Read returns the written list, Effective the list in effect, and InEffect compares them.
package cgroup
