package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/berth-project/berth/internal/linux/hostfs"
)

const (
	numaStatFile  = "memory.numa_stat"
	v2CurrentFile = "memory.current"
	v1CurrentFile = "memory.usage_in_bytes"
	v2MemoryMax   = "memory.max"
	v1MemoryMax   = "memory.limit_in_bytes"
)

const (
	// unlimitedBytes is below the number that v1 prints for no limit: LONG_MAX rounded down to whole pages.
	unlimitedBytes = 1 << 62
	// maxMemoryFile bounds memory.numa_stat: about 40 lines with a number for each node.
	maxMemoryFile = 1 << 20
)

// Memory is a handle on the memory files of one group. It keeps the files open and is for one goroutine at a time.
// After the group is removed, reads return ErrNoGroup, also when a new group has the same name.
type Memory struct {
	group   *Group // only for its path and host; it may be closed
	version int
	dir     *hostfs.Dir
	huge    *hostfs.Dir // nil where no hierarchy has the controller hugetlb
	kept    map[string]*hostfs.File
	pools   []*hostfs.File // one for each size of huge pages
	buf     []byte
	byNode  MemoryByNode
}

// Memory opens the memory files of the group. The caller closes the handle, which stays usable after the group is
// closed. The error is ErrNoHierarchy on a host without the memory controller and ErrNoGroup where its hierarchy lacks
// the group. It is ErrNoController where a v2 group lacks the controller.
func (g *Group) Memory() (*Memory, error) {
	m := &Memory{group: g, kept: map[string]*hostfs.File{}, buf: make([]byte, bufferSize)}
	hier, err := g.host.Hierarchy(MemoryController)
	if err != nil {
		return nil, fmt.Errorf("group %q: %w", g.path, err)
	}
	m.version = hier.Version
	if m.dir, err = m.open(hier); err != nil {
		return nil, err
	}
	if _, err = m.keep(numaStatFile); err != nil && !errors.Is(err, ErrNoKnob) {
		return nil, errors.Join(err, m.Close())
	}
	if err := m.openPools(); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// open opens the group's directory in a hierarchy that not every host has. If the group already has a directory of that
// hierarchy open, both must be the same directory.
func (m *Memory) open(hier Hierarchy) (*hostfs.Dir, error) {
	dir, err := m.group.host.root.Dir(hier.Mount + "/" + m.group.path)
	if vanished(err) {
		return nil, fmt.Errorf("%w %q below %s: %w", ErrNoGroup, m.group.path, hier.Mount, err)
	}
	if err != nil {
		return nil, fmt.Errorf("group %q: %w", m.group.path, err)
	}
	if held := m.group.dirs[hier.Mount]; held != nil && held.ID() != dir.ID() {
		gone := fmt.Errorf("%w %q below %s: %w", ErrNoGroup, m.group.path, hier.Mount, hostfs.ErrGone)
		return nil, errors.Join(gone, dir.Close())
	}
	return dir, nil
}

// openPools opens the files hugetlb.SIZE.numa_stat and keeps them open. There are none on a host without the controller
// hugetlb, and none for a group without it.
func (m *Memory) openPools() error {
	hier, err := m.group.host.Hierarchy(HugeTLB)
	if errors.Is(err, ErrNoHierarchy) {
		return nil
	}
	m.huge, err = m.open(hier)
	if errors.Is(err, ErrNoGroup) { // the hugetlb hierarchy may lack groups that the memory hierarchy has
		return nil
	}
	if err != nil {
		return err
	}
	entries, err := m.huge.ReadDir()
	if err != nil {
		return fmt.Errorf("huge pages of %q: %w", m.group.path, err)
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), "hugetlb.") || !strings.HasSuffix(e.Name(), ".numa_stat") {
			continue
		}
		f, err := m.huge.Keep(e.Name())
		if err != nil {
			return m.explain(e.Name(), err)
		}
		m.pools = append(m.pools, f)
	}
	return nil
}

// Close releases the files.
func (m *Memory) Close() error {
	var errs []error
	for _, f := range m.kept {
		errs = append(errs, f.Close())
	}
	for _, f := range m.pools {
		errs = append(errs, f.Close())
	}
	for _, d := range []*hostfs.Dir{m.dir, m.huge} {
		if d != nil {
			errs = append(errs, d.Close())
		}
	}
	m.kept, m.pools, m.dir, m.huge = nil, nil, nil, nil
	return errors.Join(errs...)
}

// ByNode returns where the memory is. On v2 it reads anon, shmem and file of memory.numa_stat. On v1 it reads
// hierarchical_anon (including shared pages), hierarchical_unevictable (locked pages) and hierarchical_file. On both it
// reads hugetlb.SIZE.numa_stat. The slices are valid until the next call. Once the files are open ByNode allocates
// nothing. The errors are those of Memory, ErrNoKnob for a kernel without NUMA, and ErrMalformed.
func (m *Memory) ByNode() (MemoryByNode, error) {
	data, err := m.read(numaStatFile)
	if err != nil {
		return MemoryByNode{}, err
	}
	clear(m.byNode.Movable)
	clear(m.byNode.File)
	ok := false
	if m.version == 1 {
		ok = m.byNode.addV1(data, int64(os.Getpagesize()))
	} else {
		ok = m.byNode.addV2(data)
	}
	if !ok {
		return MemoryByNode{}, m.group.malformed(numaStatFile)
	}
	for _, f := range m.pools {
		if data, err = m.readFrom(f); err != nil {
			return MemoryByNode{}, m.explain(f.Path(), err)
		}
		if !m.byNode.addPool(data) {
			return MemoryByNode{}, m.group.malformed(f.Path())
		}
	}
	for i := range m.byNode.File { // the kernel updates the counters of file and shmem at different times
		m.byNode.File[i] = max(m.byNode.File[i], 0)
	}
	return m.byNode, nil
}

// Current returns how many bytes are charged to the group and the groups below it: memory.current, or
// memory.usage_in_bytes on v1. The errors are those of ByNode.
func (m *Memory) Current() (int64, error) {
	if m.version == 1 {
		return m.number(v1CurrentFile)
	}
	return m.number(v2CurrentFile)
}

// Limit returns the group's own limit in bytes, and false without a limit: memory.max, or memory.limit_in_bytes on v1.
// Groups above may have a lower limit. The errors are those of ByNode; the root group of v2 also returns ErrNoKnob.
func (m *Memory) Limit() (limit int64, limited bool, err error) {
	name := v2MemoryMax
	if m.version == 1 {
		name = v1MemoryMax
	}
	n, err := m.number(name)
	return n, err == nil && n < unlimitedBytes, err
}

// number reads a file with one number of bytes. It returns unlimitedBytes for "max".
func (m *Memory) number(name string) (int64, error) {
	data, err := m.read(name)
	if err != nil {
		return 0, err
	}
	if string(data) == "max" {
		return unlimitedBytes, nil
	}
	n, ok := parseUint(data)
	if !ok {
		return 0, m.group.malformed(name)
	}
	return int64(min(n, unlimitedBytes)), nil
}

func (m *Memory) read(name string) ([]byte, error) {
	f, err := m.keep(name)
	if err != nil {
		return nil, err
	}
	data, err := m.readFrom(f)
	if err != nil {
		return nil, m.explain(name, err)
	}
	return data, nil
}

// readFrom reads a whole file. It doubles the buffer until the file fits, up to maxMemoryFile.
func (m *Memory) readFrom(f *hostfs.File) ([]byte, error) {
	for {
		data, err := f.Read(m.buf)
		if errors.Is(err, hostfs.ErrTooLarge) && len(m.buf) < maxMemoryFile {
			m.buf = make([]byte, 2*len(m.buf))
			continue
		}
		return trimmed(data), err
	}
}

func (m *Memory) keep(name string) (*hostfs.File, error) {
	if f := m.kept[name]; f != nil {
		return f, nil
	}
	f, err := m.dir.Keep(name)
	if err != nil {
		return nil, m.explain(name, err)
	}
	m.kept[name] = f
	return f, nil
}

// explain maps an error of the file system to this package's classes.
func (m *Memory) explain(name string, err error) error {
	switch {
	case errors.Is(err, hostfs.ErrGone):
		return fmt.Errorf("%w %q: %w", ErrNoGroup, m.group.path, err)
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("group %q: %w", m.group.path, err)
	}
	if m.version == 2 {
		if err := enabled(m.dir, MemoryController, m.group.path); err != nil {
			return err
		}
	}
	return fmt.Errorf("%w: %s of %q: %w", ErrNoKnob, name, m.group.path, err)
}
