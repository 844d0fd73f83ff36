// Package hostfile is the driver of single files below /proc/sys and /sys: one value a
// file, such as a sysctl or an attribute of a device.
//
//	file   the object is a directory below /proc/sys or /sys, the knob a file in it
//
// A value is the file's text without space around it, and one blank between its words:
// the kernel separates the numbers of a sysctl by tabs and takes blanks. Of a file
// that offers a choice, "always [madvise] never", the value is the word in brackets,
// as that is what can be written.
//
// The identity of a file below /sys is its inode, which a device that comes back does
// not have again. /proc/sys gives out inode numbers as it needs them, and the same
// file has another one after the memory was short: there the name is the identity.
//
// A file that cannot be written is distinguished from one that is not there: ErrReadOnly and
// ErrAbsent. A boot resets all of them.
package hostfile
