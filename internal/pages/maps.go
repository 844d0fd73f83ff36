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

// Kind is what the pages of a mapping are.
type Kind uint8

const (
	// File pages are page cache, a device's, or the kernel's own.
	File Kind = iota
	// Private pages are anonymous: all of them, or those of a private file that were
	// written.
	Private
	// Shared pages are shared memory: tmpfs, memfd, System V, anonymous and shared.
	Shared
	// Huge pages are those of a pool (hugetlb).
	Huge
	// Reserved is address space without access, terabytes of it.
	Reserved
	// Device pages are those of a device that pins memory: vfio, infiniband.
	Device
)

// Mapping is a part of an address space, End being the first address behind it.
type Mapping struct {
	Start, End uint64
	// PageSize is that of a pool as far as its file system says so, else 0.
	PageSize int64
	Kind     Kind
	Shared   bool
	// Memory names the shared memory that it is a part of, by device and inode as maps has
	// them. It is empty for everything that is not shared memory alone.
	Memory string
}

// sharesTables says whether processes that map the page may share the table in which it is:
// then kernels before Linux 6.11 count one mapping for all of them
// (mm/hugetlb.c:want_pmd_share).
func (m Mapping) sharesTables(address uint64, size int64) bool {
	const table = 1 << 30
	first := address / table * table
	return m.Kind == Huge && m.Shared && size < table && m.Start <= first && first+table <= m.End
}

// Mappings returns the mappings of the process in the order of their addresses.
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
	if errors.Is(err, errEmpty) { // It is when the process ended, and that of a thread of the kernel always.
		err = p.Alive()
	}
	if err != nil {
		return nil, fmt.Errorf("mappings of process %d: %w", p.PID, err)
	}
	return all, nil
}

// errEmpty says that a file of a process has nothing in it.
var errEmpty = errors.New("empty")

// errBrief says that the threads of a process end one after the other.
var errBrief = errors.New("its threads end before they are looked at")

// mostSuccessors bounds how often a file is opened: each time the thread that stood for the process had ended.
const mostSuccessors = 8

// read hands a file to a parser, piece by piece: a process decides how long it is. Where the thread that stands for the
// process ends meanwhile, it hands over that of the next one, from its beginning.
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

// saysEnded says whether a file answers as that of a thread does which has ended: EINVAL is that of its mounts, which it
// has given back (fs/proc_namespace.c).
func saysEnded(err error) bool {
	for _, answer := range []error{fs.ErrNotExist, syscall.ESRCH, syscall.EINVAL, errEmpty} {
		if errors.Is(err, answer) {
			return true
		}
	}
	return false
}

// mount is what is known of a mounted file system.
type mount struct {
	kind     Kind
	pageSize int64
}

// parseDevices returns the mounted devices, as maps has them. Those of the kernel's own
// mounts are not among them.
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
			path = "/" // a file of a disk, whatever it is called
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

// The fields of a line of maps that others than the first two have. The name is behind the
// inode, is not always there, and may have spaces.
const device, inode = 3, 4

// eachLine hands the fields of each line of maps to a function.
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

// kindOf decides by the rights, the name and the file system of a mapping. The kernel's own
// mounts, which no list of mounts has, are known by the names that it gives their files.
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
