package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/berth-project/berth/internal/hostfs"
)

const (
	numaStatFile  = "memory.numa_stat"
	v2CurrentFile = "memory.current"
	v1CurrentFile = "memory.usage_in_bytes"
	v2MemoryMax   = "memory.max"
	v1MemoryMax   = "memory.limit_in_bytes"
)

const (
	// unlimitedBytes is below what v1 prints for no limit, LONG_MAX rounded down
	// to whole pages.
	unlimitedBytes = 1 << 62
	// maxMemoryFile bounds memory.numa_stat: about 40 lines with a number for
	// each node.
	maxMemoryFile = 1 << 20
)

// Memory is the handle of what one group's memory files say. It keeps them open
// and is for one goroutine at a time. A group that is removed is ErrNoGroup
// from then on, also when one of the same name is made.
type Memory struct {
	group   *Group // for its path and its host only; it may be closed
	version int
	dir     *hostfs.Dir
	huge    *hostfs.Dir // nil where no hierarchy has the controller hugetlb
	kept    map[string]*hostfs.File
	pools   []*hostfs.File // one for each size of huge pages
	buf     []byte
	byNode  MemoryByNode
}

// Memory opens the memory files of the group. The handle is closed apart from
// the group. The errors are ErrNoHierarchy on a host without the memory
// controller, ErrNoGroup where its hierarchy does not have the group, and
// ErrNoController on v2 where the group lacks it.
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

// open opens the group's directory in a hierarchy that not every host has. Where
// the group's own handle has a directory of that hierarchy it must be the same one.
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

// openPools keeps the files hugetlb.SIZE.numa_stat open. A host without the
// controller, or a group that it lacks, has none.
func (m *Memory) openPools() error {
	hier, err := m.group.host.Hierarchy(HugeTLB)
	if errors.Is(err, ErrNoHierarchy) {
		return nil
	}
	m.huge, err = m.open(hier)
	if errors.Is(err, ErrNoGroup) { // its hierarchy may lack groups that memory's has
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

// ByNode reads where the memory is: anon, shmem and file of memory.numa_stat on
// v2, hierarchical_anon (which holds the shared pages), hierarchical_unevictable
// (locked pages) and hierarchical_file on v1, and hugetlb.SIZE.numa_stat. The
// slices are valid until the next call; once the files are open it allocates
// nothing. The errors are those of Memory, ErrNoKnob for a kernel without NUMA,
// and ErrMalformed.
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
	for i := range m.byNode.File { // the kernel's counters of file and shmem lag apart
		m.byNode.File[i] = max(m.byNode.File[i], 0)
	}
	return m.byNode, nil
}

// Current returns how many bytes are charged to the group and those below it:
// memory.current, or memory.usage_in_bytes on v1. The errors are those of ByNode.
func (m *Memory) Current() (int64, error) {
	if m.version == 1 {
		return m.number(v1CurrentFile)
	}
	return m.number(v2CurrentFile)
}

// Limit returns the group's own limit in bytes, and false without one: memory.max,
// or memory.limit_in_bytes on v1. Groups above may have a lower one. The errors
// are those of ByNode, with ErrNoKnob also for the root group of v2.
func (m *Memory) Limit() (limit int64, limited bool, err error) {
	name := v2MemoryMax
	if m.version == 1 {
		name = v1MemoryMax
	}
	n, err := m.number(name)
	return n, err == nil && n < unlimitedBytes, err
}

// number reads a file with one number of bytes; "max" is the largest one.
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

// readFrom reads a whole file, into a larger buffer where it does not fit.
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

// explain turns what the file system said of a file into this package's classes.
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
