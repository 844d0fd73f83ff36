// Package cgroup reads control groups on v1, v2 and hybrid hosts, and says
// where a setting has to be written. It holds no policy and writes nothing.
//
// A Host knows the mounted hierarchies, from /proc/self/mountinfo. A
// controller lives in the v1 hierarchy that names it in its mount options,
// otherwise in the v2 hierarchy if cgroup.controllers lists it there; cpu,
// cpuacct and cpuset may be in three hierarchies. Of several mounts of the
// same hierarchy (bind mounts, containers) the one that shows it from its
// root wins, and among those a writable one. A group is named by its path
// relative to each hierarchy's root, the same in all of them.
// The controllers memory and hugetlb are optional: a host or a group without
// them is as good as any, and only Group.Memory answers that they are missing.
//
// A Group pins the group's directory in every hierarchy that has it, so that
// a group which is removed and made again under the same name is not taken
// for the old one: reads answer ErrNoGroup then, and the identity differs.
// The files that are polled are opened once and read by pread.
//
// Settings are values of a Knob, written the same way for both versions:
// "QUOTA PERIOD" and "BURST PERIOD" in microseconds, QUOTA being "max" when
// there is no limit. They carry the period because the kernel changes it: a
// period that turns out too short for the timer to follow is doubled,
// together with quota and burst. Same recognises that, and Encode scales a
// value to the period in force where only a part of it is written (v1).
//
// Precedence is one knob over two files: an idle group has no weight and takes
// none, so its weight is gone when it is idle no more. A change from idle to a
// weight is two writes, with the kernel's default weight between them.
//
// CPUs and memory nodes are lists, and Inherit on v2 where a group has none of
// its own. What was written is one thing and what the kernel does another: v1
// refuses a list that is no subset of the parent's and forgets CPUs that go
// offline; v2 takes every list and runs on what it has in common with the
// parent's, or on all of the parent's where that is nothing. Read answers the
// first, Effective the second, and InEffect compares them.
package cgroup
