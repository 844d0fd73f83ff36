package pages

import (
	"errors"
	"io/fs"
	"syscall"
)

// The classes of errors of this package.
var (
	// ErrExited says that the process ended, or that its id now belongs to another process.
	ErrExited = errors.New("process ended")
	// ErrStuck says that a process did not answer in time, because its memory map is locked. A call that needs the lock
	// and cannot be abandoned waits for as long as the process holds it.
	ErrStuck = errors.New("does not answer: its memory map is locked")
	// ErrRights says that this program may not read the process's memory state, or move its pages. The program needs
	// CAP_SYS_PTRACE, and a seccomp profile that allows move_pages.
	ErrRights = errors.New("missing right: CAP_SYS_PTRACE or move_pages in the seccomp profile")
	// ErrNice says that this program may not move pages that several processes have mapped.
	ErrNice = errors.New("missing right: CAP_SYS_NICE")
	// ErrNode says that the target node is offline or has no memory.
	ErrNode = errors.New("no such memory node")
	// ErrMems says that the target node is not in the cpuset.mems of the process.
	ErrMems = errors.New("cpuset.mems of the process lacks the node")
	// ErrNoMemory says that the target node has no free page for the next page of the list.
	ErrNoMemory = errors.New("no free memory on the node")
	// ErrMalformed says that a kernel file does not have the documented format.
	ErrMalformed = errors.New("malformed")
)

// classified adds the class to an error of a file about a process. A missing file may be a file that the kernel lacks.
func (p *Process) classified(err error) error {
	switch {
	case errors.Is(err, syscall.ESRCH):
		return errors.Join(ErrExited, err)
	case errors.Is(err, fs.ErrNotExist):
		return errors.Join(p.Alive(), err)
	case errors.Is(err, fs.ErrPermission):
		return errors.Join(ErrRights, err)
	}
	return err
}

// called adds the class to an error of MovePages. The kernel returns EINVAL for a process without memory, which is a
// process that ended.
func called(err error) error {
	for class, numbers := range map[error][]error{
		ErrExited:   {syscall.ESRCH, syscall.EINVAL},
		ErrRights:   {fs.ErrPermission},
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
