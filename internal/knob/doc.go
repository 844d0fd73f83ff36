// Package knob is the catalogue of the kernel settings that Berth tunes by name, and looks
// which of them a host has.
//
// A knob has another place on other kernels: a sysctl became a file of debugfs, and that
// was renamed. The catalogue lists the places, and Probe tries one after the other, because
// stable trees and distributions move settings without moving version numbers: no kernel
// version is ever compared. What the version says stands in the catalogue for people only.
//
// # Support
//
//	settable  the file is there and root may write it
//	readOnly  it is there and cannot be written: kernel lockdown closes debugfs, the
//	          mount is read-only, the kernel moves this interrupt itself
//	absent    this kernel or machine does not have it
//	unknown   it cannot be seen from here: debugfs is not mounted, or not for this user
//
// Berth mounts nothing. Where lockdown closes the files of debugfs, sched/debug can be read
// all the same, and shows the fair slice.
//
// # Recorded trees
//
// All is read through an fs.FS: the host, a directory, or a recording in one file. A tree
// may have a file named "modes" at its root, with a line for each file that root could not
// read and write: the octal mode and the path below the root, or "locked" for EPERM at the
// open and "denied" for EACCES, instead of the mode. With such a file all other files count
// as settable whatever their own mode is. Record makes such trees. Of proc/self/mountinfo
// they have the mounts below /proc and /sys, of the kernel's configuration CONFIG_HZ
// and CONFIG_RT_GROUP_SCHED.
package knob
