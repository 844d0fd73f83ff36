// Package cgroupfile is the driver of the files of control groups: limits and bursts,
// CPUs and memory nodes, partitions, precedence. It has two kinds of target, which differ in who writes.
//
//	cgroup   the object is a group's path relative to the root of each hierarchy, the
//	         knob a cgroup.Knob; the file is written
//	systemd  the same, where the last element of the path names a unit of systemd and
//	         the knob is a list or, on v2, the precedence: systemd is asked, since it would undo at the next
//	         daemon-reload what is written behind its back. One before 252 knows no idle
//	         units and does not undo them: then the file is written
//
// Both describe the same place, so the journal has one entry for it, and the entry
// knows by which way it was written. The values are those of package cgroup, the same
// on v1 and v2. The identity is the group's directory in the hierarchy of the knob.
//
// A write is read back, and what the kernel makes of it counts. For CPUs and memory
// nodes that is a second file, because cgroup v2 takes any list and silently uses
// another one.
//
// From idle to a weight it takes two writes, and a crash may leave the kernel's default weight
// between them. Of a group that Berth has, or had, idle that is Berth's value
// (plan.Kind.Mangled): no writer can give such a group another weight
// before it has that one.
//
// A change of a group's CPUs has a side effect on some kernels: before Linux 6.2 threads
// lose the affinity that they gave themselves. It is journaled before the write (Note) and
// given back after it (GiveBack), within the CPUs that the group has then. Which kernel it
// is shows after the first write: one that keeps affinities is left to itself from then on.
//
// A partition takes its CPUs from every other group: what that costs is noted of all threads of
// the host but those that no program can move, and given back when it is none any more. The
// kernel takes a partition that it cannot make, and says so in its file: that text is Berth's
// value, too (plan.Kind.Mangled), so that it is put back.
//
// systemd may have a value on record also of a group whose file is written, because a
// container runtime put it there (Properties). A rollback takes it out of the record.
//
// A list that systemd was asked for is a property of the unit until the next boot, and
// outlives the group: a service that restarts, or is started again, has a new group with
// the same list. So an entry stays as long as systemd may have the list (plan.Kind.Recurs).
//
// One original cannot be put back to the letter: on cgroup v2 the kernel does not let
// anybody empty cpuset.cpus or cpuset.mems while processes are in the group. Then the
// list of all that the machine can ever have is written, which has the same effect now
// and later, and counts as the original.
package cgroupfile
