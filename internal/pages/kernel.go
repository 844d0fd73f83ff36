package pages

import (
	"fmt"
	"io/fs"
	"runtime"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/berth-project/berth/internal/hostfs"
)

// Files are the kernel's files that are read whole, live or of a recorded machine.
type Files interface {
	// ReadFile returns a whole file below the root, like "proc/1/maps".
	ReadFile(name string) ([]byte, error)
}

// Kernel is the running kernel, or that of a test: its files and its one call.
type Kernel interface {
	Files
	// Open opens a file or directory. Files are an io.ReaderAt too.
	Open(name string) (fs.File, error)
	// MovePages is move_pages(2). Without nodes it asks where the pages are. A positive
	// result counts pages that did not move, and leaves statuses as they were.
	MovePages(pid int, addresses []uint64, nodes, status []int32, flags int) (int, error)
}

// The flags of MovePages: move what only this process has mapped, or what others have mapped
// as well (include/uapi/linux/mempolicy.h, MPOL_MF_MOVE and MPOL_MF_MOVE_ALL).
const (
	moveOwn = 1 << 1
	moveAll = 1 << 2
)

// Live returns the running kernel, with its files below root. It answers Within a time, and remembers which
// processes did not: who asks again and again keeps it.
func Live(root *hostfs.Root) Kernel { return Within(live{root, root.FS()}) }

type live struct {
	*hostfs.Root
	tree fs.FS
}

// Open opens a file of the running kernel.
func (l live) Open(name string) (fs.File, error) {
	return l.tree.Open(strings.TrimPrefix(name, "/")) //nolint:wrapcheck // it is a PathError
}

// MovePages is the system call. x/sys/unix has its number and no wrapper.
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
