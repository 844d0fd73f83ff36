package topology

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"

	"github.com/berth-project/berth/internal/value/cpuset"
)

// source reads small kernel files and records what is wrong with them.
type source struct {
	fsys fs.FS
	// cpuTree is the tree below cpuDir, which has almost all of the files. If this sub tree keeps its directory open,
	// reading needs half the time.
	cpuTree fs.FS
	notes   notes
}

// newSource opens the tree. If the tree has no directory of CPUs, the source reads from the whole tree only.
func newSource(fsys fs.FS) *source {
	sub, err := fs.Sub(fsys, cpuDir)
	if err != nil {
		sub = nil
	}
	return &source{fsys: fsys, cpuTree: sub}
}

// close releases the files that newSource opened. An error loses nothing.
func (s *source) close() {
	if c, ok := s.cpuTree.(io.Closer); ok {
		_ = c.Close()
	}
}

// read reads a file by its full name.
func (s *source) read(name string) ([]byte, error) {
	if short, ok := strings.CutPrefix(name, cpuDir+"/"); ok && s.cpuTree != nil {
		return fs.ReadFile(s.cpuTree, short) //nolint:wrapcheck // the caller adds the name
	}
	return fs.ReadFile(s.fsys, name) //nolint:wrapcheck // the caller adds the name
}

// text returns the content of a file without white space around it, and without the NUL bytes at the end of some
// recordings. A missing file causes no warning, because most files have a substitute.
func (s *source) text(name string) (string, bool) {
	data, err := s.read(name)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			s.notes.bad(name, err)
		}
		return "", false
	}
	return strings.Trim(string(data), " \t\r\n\x00"), true
}

// number reads one decimal number, which may be negative.
func (s *source) number(name string) (int, bool) {
	text, ok := s.text(name)
	if !ok {
		return 0, false
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		s.notes.bad(name, fmt.Errorf("%w: want a number", err))
		return 0, false
	}
	return n, true
}

// list reads a CPU list. A kernel without the feature may print "(null)".
func (s *source) list(name string) (cpuset.Set, bool) {
	text, ok := s.text(name)
	if !ok || text == "(null)" {
		return cpuset.Set{}, false
	}
	set, err := cpuset.Parse(text)
	if err != nil {
		s.notes.bad(name, err)
		return cpuset.Set{}, false
	}
	return set, true
}

// set reads a CPU list. If the list is missing or broken, set reads the mask that old kernels have instead.
func (s *source) set(list, mask string) (cpuset.Set, bool) {
	if set, ok := s.list(list); ok {
		return set, true
	}
	text, ok := s.text(mask)
	if !ok {
		return cpuset.Set{}, false
	}
	set, err := cpuset.ParseMask(text)
	if err != nil {
		s.notes.bad(mask, err)
		return cpuset.Set{}, false
	}
	return set, true
}

// numbered returns n for every entry of dir whose name is prefix followed by the number n.
func (s *source) numbered(dir, prefix string) (cpuset.Set, error) {
	entries, err := fs.ReadDir(s.fsys, dir)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			s.notes.bad(dir, err)
		}
		return cpuset.Set{}, nil
	}
	var ids []int
	for _, entry := range entries {
		digits, ok := strings.CutPrefix(entry.Name(), prefix)
		if id, err := strconv.ParseUint(digits, 10, 31); ok && err == nil {
			ids = append(ids, int(id))
		}
	}
	set, err := cpuset.Of(ids...)
	if err != nil {
		return cpuset.Set{}, fmt.Errorf("read %s: %w", dir, err)
	}
	return set, nil
}

// notes collects warnings. Equal warnings about several CPUs become one line.
type notes struct {
	lines  []note
	broken int
	first  string
}

type note struct {
	cpus cpuset.Set
	text string
}

// add records a sentence about the whole machine.
func (n *notes) add(format string, args ...any) {
	n.cpus(cpuset.Set{}, fmt.Sprintf(format, args...))
}

// cpus records a fault of some CPUs.
func (n *notes) cpus(cpus cpuset.Set, text string) {
	for i := range n.lines {
		if n.lines[i].text == text {
			n.lines[i].cpus = n.lines[i].cpus.Union(cpus)
			return
		}
	}
	n.lines = append(n.lines, note{cpus, text})
}

// bad records a file that exists but is not usable. The warning quotes the first such file and counts the others: one
// broken table on 512 CPUs is one warning.
func (n *notes) bad(name string, err error) {
	if n.broken == 0 {
		n.first = fmt.Sprintf("%s: %v", name, err)
	}
	n.broken++
}

// all returns the warnings as text, never nil.
func (n *notes) all() []string {
	lines := make([]string, 0, len(n.lines)+1)
	for _, line := range n.lines {
		text := line.text
		if !line.cpus.IsEmpty() {
			text = "CPUs " + line.cpus.String() + ": " + text
		}
		lines = append(lines, text)
	}
	switch {
	case n.broken == 1:
		lines = append(lines, "ignored a file that makes no sense: "+n.first)
	case n.broken > 1:
		lines = append(lines, fmt.Sprintf("ignored %d files that make no sense; the first: %s", n.broken, n.first))
	}
	return lines
}
