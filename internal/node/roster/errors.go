package roster

import "errors"

// Reasons why a workload has no group.
var (
	ErrShared = errors.New("two workloads name this group")
	ErrOther  = errors.New("this process id belongs to another process now")
	ErrRoot   = errors.New("the root group has no limit and is never touched")
	ErrEnded  = errors.New("the container does not run")
)
