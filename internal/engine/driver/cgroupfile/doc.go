// Package cgroupfile is the driver of the files of control groups: limits and bursts, CPUs and memory nodes,
// partitions, precedence. It has three kinds of target, which differ in the writer.
//
//	cgroup   the object is a group's path relative to the root of each hierarchy, the
//	         knob a cgroup.Knob. The driver writes the file.
//	systemd  the same, but the last element of the path names a systemd unit, and the knob
//	         is a list or, on v2, the precedence. The driver asks systemd, which would undo
//	         a direct write at its next daemon-reload. A systemd before 252 knows no idle
//	         units and does not undo them: then the driver writes the file.
//	slice    the object is a slice at the top of the hierarchy, the value its partition with
//	         its CPUs, or that it has neither. The driver has systemd start or stop it.
//
// The first two kinds describe the same file, so the journal has one entry for it, which also names the kind of the
// write. The values are those of package cgroup, the same on v1 and v2. The identity is the group's directory in the
// hierarchy of the knob.
//
// The driver reads every write back, and reports what the kernel made of it. For CPUs and memory nodes it also reads a
// second file, because cgroup v2 accepts any list and may silently use another one.
//
// A change from idle to a weight takes two writes, and a crash may leave the kernel's default weight between them. If
// Berth has, or had, the group idle, that default is Berth's value (plan.Kind.Mangled). No other writer can give an
// idle group another weight without first setting this default.
//
// On kernels before Linux 6.2, a change of a group's CPUs has a side effect: threads lose the affinity that they set
// themselves. The driver journals the affinity before the write (Note) and restores it afterwards (GiveBack), within
// the group's new CPUs. The first write shows whether the kernel retains affinities; if it does, the driver stops
// doing this.
//
// A partition takes its CPUs from every other group. The driver journals the affinities of all threads of the host,
// except threads that no program can move, and restores them when the partition ends. The kernel accepts a partition
// that it cannot make, and says so in the file. That text is Berth's value, too (plan.Kind.Mangled), so that it is
// restored.
//
// A slice is one target with one value, because its group has no files before its first write. The original, that there
// is no such slice, is on record before systemd starts it. Between the writes of one change a slice has its CPUs and no
// partition, or a partition that the kernel did not make. Both are Berth's values (plan.Kind.Mangled), so that an undo
// can begin anywhere. Berth knows its own slices by their description. It stops only these, and only if no unit is in
// them. If a unit that starts with the host is in the slice, systemd has started the slice: Berth then gives it CPUs
// and a partition, and an undo only removes both.
//
// systemd may also have a record of a value whose file the driver writes, because a container runtime set it there
// (Properties). A rollback removes the value from systemd's record.
//
// A list that systemd was asked for is a property of the unit until the next boot, and outlives the group. A service
// that restarts, or is started again, has a new group with the same list. The journal entry therefore stays as long as
// systemd may have the list (plan.Kind.Recurs).
//
// A write of memory nodes may move no page, because the kernel does not know the nodes to move from. The driver then
// writes the value before, and the new value again (rest).
//
// One original cannot be restored exactly: on cgroup v2 the kernel lets nobody empty cpuset.cpus or cpuset.mems while
// processes are in the group. The driver then writes the list of everything that the machine can ever have. That list
// has the same effect now and later, and counts as the original.
package cgroupfile
