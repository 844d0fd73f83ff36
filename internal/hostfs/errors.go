package hostfs

import "errors"

// ErrGone says that the held directory, or the file kept open, was removed
// from the file system after it was opened: the kernel answers ENODEV for a
// file of a removed cgroup and ENOENT for every name in its directory.
var ErrGone = errors.New("removed meanwhile")

// ErrTooLarge says that a file holds more than the reader is ready to take.
var ErrTooLarge = errors.New("larger than allowed")

// ErrBusy says that the directory is locked through another handle.
var ErrBusy = errors.New("locked by another process")
