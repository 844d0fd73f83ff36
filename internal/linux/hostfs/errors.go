package hostfs

import "errors"

// ErrGone means that the open directory or file was removed from the file system after it was opened. The kernel
// returns ENODEV for a file of a removed cgroup, and ENOENT for every name in its directory.
var ErrGone = errors.New("removed meanwhile")

// ErrTooLarge means that a file is larger than the reader's limit.
var ErrTooLarge = errors.New("larger than allowed")

// ErrBusy means that the directory is locked through another handle.
var ErrBusy = errors.New("locked by another process")
