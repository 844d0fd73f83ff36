package hostfile

import "errors"

var (
	// ErrAbsent says that this kernel, or this machine, does not have the file.
	ErrAbsent = errors.New("no such file on this host")
	// ErrReadOnly says that the file cannot be written from here: the file system is
	// mounted read-only, as in most containers, or the kernel has it for reading only.
	ErrReadOnly = errors.New("cannot be written")
	// ErrOutside says that a target is not below /proc/sys or /sys, or is a control
	// group's.
	ErrOutside = errors.New("no file of /proc/sys or /sys")
)
