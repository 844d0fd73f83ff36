package hostfile

import "errors"

var (
	// ErrAbsent says that this kernel or this machine does not have the file.
	ErrAbsent = errors.New("no such file on this host")
	// ErrReadOnly says that the file cannot be written from here: the file system is mounted read-only, as in most
	// containers, or the kernel lets nobody write the file.
	ErrReadOnly = errors.New("cannot be written")
	// ErrHidden says that the file cannot be seen from here but may exist: the tree is not mounted, as in some
	// containers, or a whole subsystem is missing from it. The journal retains the original.
	ErrHidden = errors.New("not visible from here")
	// ErrOutside says that a target is not below /proc/sys or /sys, is a control group's file, or is in another file
	// system that is mounted there.
	ErrOutside = errors.New("no file of /proc/sys or /sys")
)
