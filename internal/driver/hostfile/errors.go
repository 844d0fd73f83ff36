package hostfile

import "errors"

var (
	// ErrAbsent says that this kernel, or this machine, does not have the file.
	ErrAbsent = errors.New("no such file on this host")
	// ErrReadOnly says that the file cannot be written from here: the file system is
	// mounted read-only, as in most containers, or the kernel has it for reading only.
	ErrReadOnly = errors.New("cannot be written")
	// ErrHidden says that the file cannot be seen from here and may exist all the same:
	// the tree is not mounted, as in some containers, or the whole subsystem is missing
	// from it. The original in the journal is kept.
	ErrHidden = errors.New("not visible from here")
	// ErrOutside says that a target is not below /proc/sys or /sys, is a control
	// group's, or is in another file system that is mounted there.
	ErrOutside = errors.New("no file of /proc/sys or /sys")
)
