// Package hostfile is the driver of single files below /proc/sys and /sys: one value per file, such as a sysctl or an
// attribute of a device.
//
//	file   the object is a directory below /proc/sys or /sys, the knob a file in it.
//
// A value is the file's text without surrounding space, and with one blank between words: the kernel separates the
// numbers of a sysctl by tabs and accepts blanks. If a file offers a choice, as "always [madvise] never" does, the
// value is the word in brackets. debugfs uses parentheses. Only that word can be written.
//
// The identity of a file below /sys is its inode; a device that comes back has another inode. The identity of a file
// below /proc/sys is its name, since /proc/sys assigns inode numbers on demand and changes them when memory was short.
// The identity of a sysctl of a network interface (net/*/conf and net/*/neigh) also has the interface's index. An
// interface that is created again under the same name has another index (dev_index_reserve in net/core/dev.c) and the
// values of new interfaces. The index is read below /sys/class/net, so both trees must be of one network namespace. A
// renamed interface is gone under its old name.
//
// The driver reads and writes only files of the two trees themselves and of debugfs in /sys/kernel/debug. A file of
// another file system that is mounted in them, such as a control group's, is ErrOutside.
//
// The catalogue of package knob describes three special kinds of files.
//
// A mask of CPUs may have any number of leading zeros. The workqueues' mask shows only the CPUs that isolated
// partitions left of it; the file beside it has the requested mask, which is the value.
//
// The kernel has a second copy of the fair slice, and computes the slice from it again when a CPU or a partition comes
// or goes. Writing the slice does not update that copy; the driver therefore also writes tunable_scaling with its
// present value. The copy is for one CPU and in whole nanoseconds, so slices that differ by a few nanoseconds are
// equal. A slice that the kernel scaled for another number of CPUs is still Berth's to restore.
//
// The kernel allocates as many huge pages as it has memory for: ErrPartly. The journal has the resulting number; any
// other number is another program's. If a kill ended the write, the result is unknown: then every number between the
// old and the new one is Berth's to restore.
//
// A file of a frequency policy whose CPUs are offline is ErrNotInForce until one of them is back. Either the file
// answers EBUSY, or the policy's affected_cpus is empty.
//
// The driver distinguishes a file that cannot be written (ErrReadOnly) from a missing file (ErrAbsent). If the first
// directory below a tree is missing, and with it a whole subsystem, the file may still exist: ErrHidden. A boot resets
// all of these files.
package hostfile
