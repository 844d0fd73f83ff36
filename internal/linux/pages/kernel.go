package pages

import (
	"fmt"
	"io/fs"
	"runtime"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/berth-project/berth/internal/linux/hostfs"
)

// Files reads whole kernel files, of the running kernel or of a recorded machine.
type Files interface {
	// ReadFile returns a whole file below the root, like "proc/1/maps".
	ReadFile(name string) ([]byte, error)
}

// Kernel is the running kernel, or a test's kernel: its files and its one system call.
type Kernel interface {
	Files
	// Open opens a file or directory. Files also implement io.ReaderAt.
	Open(name string) (fs.File, error)
	// MovePages is move_pages(2). Without nodes, it returns the node of each page in status. A positive result is the
	// number of pages that did not move; the kernel may then leave their statuses unwritten.
	MovePages(pid int, addresses []uint64, nodes, status []int32, flags int) (int, error)
}

// The flags of MovePages: move only pages that no other process has mapped, or also pages that other processes have
// mapped (include/uapi/linux/mempolicy.h, MPOL_MF_MOVE and MPOL_MF_MOVE_ALL).
const (
	moveOwn = 1 << 1
	moveAll = 1 << 2
)

// Live returns the running kernel, with its files below root. Its calls are limited in time, as Within describes, and
// it remembers which processes did not answer. A caller that asks repeatedly should use the same Kernel.
func Live(root *hostfs.Root) Kernel { return Within(live{root, root.FS()}) }

type live struct {
	*hostfs.Root
	tree fs.FS
}

// Open opens a file of the running kernel.
func (l live) Open(name string) (fs.File, error) {
	return l.tree.Open(strings.TrimPrefix(name, "/")) //nolint:wrapcheck // it is a PathError
}

// MovePages is the system call. x/sys/unix has only its number.
func (live) MovePages(pid int, addresses []uint64, nodes, status []int32, flags int) (int, error) {
	if len(addresses) == 0 {
		return 0, nil
	}
	n, _, errno := unix.Syscall6(unix.SYS_MOVE_PAGES, uintptr(pid), uintptr(len(addresses)),
		uintptr(unsafe.Pointer(unsafe.SliceData(addresses))),
		uintptr(unsafe.Pointer(unsafe.SliceData(nodes))),
		uintptr(unsafe.Pointer(unsafe.SliceData(status))), uintptr(flags))
	runtime.KeepAlive(addresses)
	if errno != 0 {
		return 0, fmt.Errorf("move_pages: %w", errno)
	}
	return int(n), nil
}
