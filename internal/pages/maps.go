package pages

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

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
	// Device pages are those of a device that pins memory: vfio, infiniband.
	Device
)

// Mapping is a part of an address space, End being the first address behind it.
type Mapping struct {
	Start, End uint64
	Kind       Kind
}

// Mappings returns the mappings of the process in the order of their addresses.
func (p *Process) Mappings() ([]Mapping, error) {
	data, err := p.kernel.ReadFile(p.file("maps"))
	if err != nil {
		return nil, fmt.Errorf("mappings of process %d: %w", p.PID, classified(err))
	}
	kinds, err := p.kernel.ReadFile(p.file("mountinfo"))
	if err != nil {
		return nil, fmt.Errorf("mounts of process %d: %w", p.PID, classified(err))
	}
	devices, err := parseDevices(kinds)
	if err != nil {
		return nil, fmt.Errorf("mounts of process %d: %w", p.PID, err)
	}
	all, err := parseMaps(string(data), devices)
	if err != nil {
		return nil, fmt.Errorf("mappings of process %d: %w", p.PID, err)
	}
	return all, nil
}

// parseDevices returns the devices, as maps has them, of file systems whose files are
// memory. Those of the kernel's own mounts are not among them.
func parseDevices(mounts []byte) (map[string]Kind, error) {
	infos, err := mountinfo.GetMountsFromReader(bytes.NewReader(mounts), nil)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	devices := map[string]Kind{}
	for _, m := range infos {
		kind, ok := map[string]Kind{"tmpfs": Shared, "ramfs": Shared, "hugetlbfs": Huge}[m.FSType]
		if ok {
			devices[fmt.Sprintf("%02x:%02x", m.Major, m.Minor)] = kind
		}
	}
	return devices, nil
}

// parseMaps reads lines like "7f00-7f08 rw-p 00000000 00:1a 42   /dev/shm/x".
func parseMaps(text string, devices map[string]Kind) ([]Mapping, error) {
	const inode, name = 4, 5 // fields; the name is not always there and may have spaces
	var all []Mapping
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) <= inode {
			return nil, fmt.Errorf("line %q: %w", line, ErrMalformed)
		}
		first, last, _ := strings.Cut(fields[0], "-")
		start, err := strconv.ParseUint(first, 16, 64)
		if err != nil {
			return nil, fmt.Errorf("line %q: %w", line, ErrMalformed)
		}
		end, err := strconv.ParseUint(last, 16, 64)
		if err != nil || end <= start || len(all) > 0 && start < all[len(all)-1].End {
			return nil, fmt.Errorf("line %q: %w", line, ErrMalformed)
		}
		path := strings.Join(fields[name:], " ")
		all = append(all, Mapping{start, end, kindOf(fields[1], fields[inode] != "0", path, devices[fields[3]])})
	}
	return all, nil
}

// kindOf decides by the rights, the name and the file system of a mapping. The kernel's own
// mounts, which no list of mounts has, are known by the names that it gives their files.
func kindOf(rights string, file bool, path string, device Kind) Kind {
	private := strings.HasSuffix(rights, "p")
	switch {
	case strings.HasPrefix(path, "/dev/vfio/"), strings.HasPrefix(path, "/dev/infiniband/"), strings.HasPrefix(path, "anon_inode:[vfio"):
		return Device
	case device == Huge, path == "/anon_hugepage (deleted)":
		return Huge
	case strings.HasPrefix(path, "[v"), path == "[uprobes]", strings.HasPrefix(rights, "---"):
		return File // vvar, vdso, vsyscall; address space that is only reserved, terabytes of it
	case !file:
		return Private
	case device == Shared, path == "/dev/zero (deleted)", strings.HasPrefix(path, "/memfd:"), strings.HasPrefix(path, "/SYSV"):
		return Shared
	case private:
		return Private
	}
	return File
}
