package pages

import (
	"errors"
	"io/fs"
	"syscall"
)

// The classes of errors of this package.
var (
	// ErrExited says that the process ended, or that its id is another's by now.
	ErrExited = errors.New("process ended")
	// ErrRights says that this program may not look at the process, or move its pages:
	// it needs CAP_SYS_PTRACE, and a seccomp profile that has move_pages.
	ErrRights = errors.New("missing right: CAP_SYS_PTRACE or move_pages in the seccomp profile")
	// ErrNode says that the target node is offline or has no memory.
	ErrNode = errors.New("no such memory node")
	// ErrMems says that the target node is not in the cpuset.mems of the process.
	ErrMems = errors.New("cpuset.mems of the process lacks the node")
	// ErrNoMemory says that the target node has no page for the next one of the list.
	ErrNoMemory = errors.New("no free memory on the node")
	// ErrMalformed says that a kernel file does not look as documented.
	ErrMalformed = errors.New("malformed")
)

// classified puts an error of the kernel about a process into its class.
func classified(err error) error {
	for class, numbers := range map[error][]error{
		ErrExited:   {syscall.ESRCH, syscall.EINVAL, fs.ErrNotExist},
		ErrRights:   {fs.ErrPermission, syscall.ENOSYS},
		ErrNode:     {syscall.ENODEV},
		ErrNoMemory: {syscall.ENOMEM},
	} {
		for _, number := range numbers {
			if errors.Is(err, number) {
				return errors.Join(class, err)
			}
		}
	}
	return err
}
