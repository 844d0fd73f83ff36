package pages

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"
	"syscall"

	"github.com/moby/sys/mountinfo"
)

// Kind is the kind of the pages of a mapping.
type Kind uint8

const (
	// File pages are page cache, or pages of a device or of the kernel itself.
	File Kind = iota
	// Private pages are anonymous. In a mapping of a private file, these are the pages that were written.
	Private
	// Shared pages are shared memory: tmpfs, memfd, System V, and anonymous shared mappings.
	Shared
	// Huge pages are pages of a pool (hugetlb).
	Huge
	// Reserved is address space without access rights, often terabytes.
	Reserved
	// Device pages belong to a device that pins memory: vfio, infiniband.
	Device
)

// Mapping is a part of an address space. End is the first address after it.
type Mapping struct {
	Start, End uint64
	// PageSize is the page size of a pool if its file system states the size, else 0.
	PageSize int64
	Kind     Kind
	Shared   bool
	// Memory identifies the shared memory that the mapping is a part of, by device and inode in the format of maps. It
	// is empty for all other mappings, including private mappings of shared memory.
	Memory string
}

// sharesTables reports whether processes that map the page may share its page table. Kernels before Linux 6.11 then
// count one mapping for all of these processes (mm/hugetlb.c:want_pmd_share).
func (m Mapping) sharesTables(address uint64, size int64) bool {
	const table = 1 << 30
	first := address / table * table
	return m.Kind == Huge && m.Shared && size < table && m.Start <= first && first+table <= m.End
}

// Mappings returns the mappings of the process in the order of addresses.
func (p *Process) Mappings() ([]Mapping, error) {
	var devices map[string]mount
	err := p.read("mountinfo", func(f io.Reader) (err error) {
		devices, err = parseDevices(f)
		return err
	})
	if errors.Is(err, syscall.EINVAL) {
		err = errors.Join(ErrExited, err)
	}
	var all []Mapping
	if err == nil {
		err = p.read("maps", func(f io.Reader) (err error) {
			all, err = parseMaps(f, devices)
			if err == nil && len(all) == 0 {
				err = errEmpty
			}
			return err
		})
	}
	if errors.Is(err, errEmpty) { // The process ended, or is a kernel thread.
		err = p.Alive()
	}
	if err != nil {
		return nil, fmt.Errorf("mappings of process %d: %w", p.PID, err)
	}
	return all, nil
}

// errEmpty says that a file of a process is empty.
var errEmpty = errors.New("empty")

// errBrief says that the threads of a process end one after the other, before read can read their files.
var errBrief = errors.New("its threads end before they are looked at")

// mostSuccessors bounds how often read opens a file. It opens the file again when the thread that represented the
// process had ended.
const mostSuccessors = 8

// read passes a file to a parser piece by piece, because a process decides how long the file is. If the thread that
// represents the process ends in the meantime, read passes the file of the next thread, from its beginning.
func (p *Process) read(name string, parse func(io.Reader) error) error {
	for range mostSuccessors {
		tid := p.tid
		if err := p.readOnce(name, parse); !saysEnded(err) || p.Alive() != nil || p.tid == tid {
			return p.classified(err)
		}
	}
	return fmt.Errorf("read %s: %w", name, errBrief)
}

func (p *Process) readOnce(name string, parse func(io.Reader) error) error {
	f, err := p.kernel.Open(p.file(name))
	if err != nil {
		return err
	}
	defer f.Close()
	return parse(f)
}

// saysEnded reports whether an error is one that files of an ended thread return. EINVAL comes from mountinfo: an ended
// thread has released its mounts (fs/proc_namespace.c).
func saysEnded(err error) bool {
	for _, answer := range []error{fs.ErrNotExist, syscall.ESRCH, syscall.EINVAL, errEmpty} {
		if errors.Is(err, answer) {
			return true
		}
	}
	return false
}

// mount is the part of a mounted file system's description that maps need.
type mount struct {
	kind     Kind
	pageSize int64
}

// parseDevices returns the mounted devices, by their name in maps. The kernel's internal mounts are not included.
func parseDevices(mounts io.Reader) (map[string]mount, error) {
	devices := map[string]mount{}
	_, err := mountinfo.GetMountsFromReader(mounts, func(m *mountinfo.Info) (skip, stop bool) {
		kind := map[string]Kind{"tmpfs": Shared, "ramfs": Shared, "hugetlbfs": Huge}[m.FSType]
		devices[fmt.Sprintf("%02x:%02x", m.Major, m.Minor)] = mount{kind, pageSize(m.VFSOptions)}
		return true, false
	})
	if err != nil {
		return nil, fmt.Errorf("mounts: %w: %w", ErrMalformed, err)
	}
	return devices, nil
}

// pageSize reads options like "rw,pagesize=1024M".
func pageSize(options string) int64 {
	_, text, _ := strings.Cut(options, "pagesize=")
	text, _, _ = strings.Cut(text, ",")
	for unit, shift := range map[string]int{"K": 10, "M": 20} {
		if number, ok := strings.CutSuffix(text, unit); ok {
			if n, err := strconv.ParseUint(number, 10, 24); err == nil {
				return int64(n) << shift
			}
		}
	}
	return 0
}

// parseMaps reads lines like "7f00-7f08 rw-p 00000000 00:1a 42   /dev/shm/x".
func parseMaps(text io.Reader, devices map[string]mount) ([]Mapping, error) {
	var all []Mapping
	err := eachLine(text, func(fields []string) error {
		first, last, _ := strings.Cut(fields[0], "-")
		start, err := strconv.ParseUint(first, 16, 64)
		if err != nil {
			return fmt.Errorf("addresses %q: %w", fields[0], ErrMalformed)
		}
		end, err := strconv.ParseUint(last, 16, 64)
		if err != nil || end <= start || len(all) > 0 && start < all[len(all)-1].End {
			return fmt.Errorf("addresses %q: %w", fields[0], ErrMalformed)
		}
		on, mounted := devices[fields[device]]
		path := strings.Join(fields[inode+1:], " ")
		if mounted && on.kind == File && strings.HasPrefix(path, "/") && !strings.HasPrefix(path, "/dev/") {
			path = "/" // a file on a disk; its name does not matter
		}
		m := Mapping{
			Start: start, End: end, PageSize: on.pageSize, Shared: strings.HasSuffix(fields[1], "s"),
			Kind: kindOf(fields[1], fields[inode] != "0", path, on.kind),
		}
		if m.Kind == Shared && m.Shared {
			m.Memory = fields[device] + " " + fields[inode]
		}
		all = append(all, m)
		return nil
	})
	return all, err
}

// Indexes of the device and the inode in a line of maps. The name follows the inode, is optional, and may contain
// spaces.
const device, inode = 3, 4

// eachLine passes the fields of each line of maps to a function.
func eachLine(text io.Reader, take func(fields []string) error) error {
	lines := bufio.NewScanner(text)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) <= inode {
			return fmt.Errorf("line %q: %w", lines.Text(), ErrMalformed)
		}
		if err := take(fields); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("read: %w", err)
	}
	return nil
}

// kindOf derives the kind from the rights, the name and the file system of a mapping. mountinfo does not list the
// kernel's internal mounts; kindOf recognizes their files by the names that the kernel gives them.
func kindOf(rights string, file bool, path string, device Kind) Kind {
	switch {
	case strings.HasPrefix(path, "/dev/vfio/"), strings.HasPrefix(path, "/dev/infiniband/"), strings.HasPrefix(path, "anon_inode:[vfio"):
		return Device
	case device == Huge, path == "/anon_hugepage (deleted)":
		return Huge
	case strings.HasPrefix(rights, "---"):
		return Reserved
	case strings.HasPrefix(path, "[v"), path == "[uprobes]":
		return File // vvar, vdso, vsyscall
	case !file:
		return Private
	case device == Shared, path == "/dev/zero (deleted)", strings.HasPrefix(path, "/memfd:"), strings.HasPrefix(path, "/SYSV"), strings.HasPrefix(path, "[anon_shmem:"):
		return Shared
	case strings.HasSuffix(rights, "p"):
		return Private
	}
	return File
}
