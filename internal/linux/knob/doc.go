// Package knob is the catalogue of the kernel settings that Berth tunes by name. It also finds which of them a host
// has.
//
// A knob has different places on different kernels: some sysctls became files of debugfs, and were renamed there. The
// catalogue lists the places, and Probe tries one after the other. Probe never compares kernel versions, because stable
// trees and distributions move settings without a new version number. Versions in the catalogue are for people only.
//
// # Support
//
//	settable  the file exists and root may write it
//	readOnly  the file exists and cannot be written: kernel lockdown closes debugfs, the
//	          mount is read-only, or the kernel moves this interrupt itself
//	absent    this kernel or machine lacks it
//	unknown   the file cannot be seen: debugfs is not mounted, or not for this user
//
// Berth mounts nothing. If lockdown closes the files of debugfs, sched/debug is still readable and shows the fair
// slice.
//
// # Recorded trees
//
// The package reads everything through an fs.FS: the host, a directory, or a recording in one file. A tree may have a
// file named "modes" at its root, with a line for each file that root could not both read and write. The line has the
// octal mode and the path below the root. Instead of the mode, it may have "locked" for EPERM at the open, "denied" for
// EACCES at the open, or "busy" for EBUSY at the read. In a tree with a modes file, all other files are settable,
// regardless of their own mode.
//
// Record creates such trees. From proc/self/mountinfo they contain only the mounts below /proc and /sys, and from the
// kernel's configuration only CONFIG_HZ, CONFIG_RT_GROUP_SCHED and CONFIG_RT_GROUP_SCHED_DEFAULT_DISABLED.
package knob
