// Package hostfile is the driver of single files below /proc/sys and /sys: one value a
// file, such as a sysctl or an attribute of a device.
//
//	file   the object is a directory below /proc/sys or /sys, the knob a file in it
//
// A value is the file's text without space around it, and one blank between its words:
// the kernel separates the numbers of a sysctl by tabs and takes blanks. Of a file
// that offers a choice, "always [madvise] never", the value is the word in brackets, in
// debugfs in parentheses, as that is what can be written.
//
// The identity of a file below /sys is its inode, which a device that comes back does
// not have again. /proc/sys gives out inode numbers as it needs them, and the same
// file has another one after the memory was short: there the name is the identity.
// A sysctl of a network interface (net/*/conf and net/*/neigh) has the interface's index as
// well: the kernel gives one that is made again under the same name another index
// (dev_index_reserve in net/core/dev.c) and the values that new ones have. The index is
// read below /sys/class/net, so both trees must be of one network name space. An interface
// that is renamed is gone under its old name.
//
// Only files of the two trees themselves and of debugfs in /sys/kernel/debug are read and
// written, and none of another file system that is mounted in them, such as a control
// group's: ErrOutside.
//
// The catalogue of package knob says three things of some files. A mask of CPUs is the same
// with more zeros before it. The workqueues' mask shows what isolated partitions left of it:
// its value is in the file beside it that has the mask as it was requested. Of the fair slice
// the kernel keeps a second copy, from which it computes the slice again when a CPU or a
// partition comes or goes: after the slice tunable_scaling is written with the value that it
// has, which brings that copy up to date. The copy is for one CPU and whole nanoseconds: a
// slice that differs by a few is the same, and one that the kernel scaled for another number
// of CPUs is still Berth's to put back.
//
// Of a number of huge pages the kernel takes what it has memory for: ErrPartly. What it made of a
// write is on record, and another number is another program's. Where a kill ended the write, nobody knows how
// far it was: then all between the two numbers is Berth's to put back.
//
// The files of a frequency policy whose CPUs are offline answer EBUSY, or its affected_cpus is empty:
// ErrNotInForce, until one of them is back.
//
// A file that cannot be written is distinguished from one that is not there: ErrReadOnly and
// ErrAbsent. Where the first directory below a tree is missing, and with it a whole
// subsystem, nothing says that the file is gone: ErrHidden. A boot resets all of them.
package hostfile
