package topology

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
)

// Recording is a machine in one text: the files that Discover reads, in the txtar format ("-- path --" before each
// file). It is an fs.FS with the same paths as the host. Unpacked into a directory, it is a tree for --root.
type Recording struct {
	files map[string][]byte
	dirs  map[string][]fs.DirEntry
}

// ParseRecording reads a recording. It returns ErrRecording for a text without any file, and for a path that leaves the
// tree, occurs twice, or is both file and directory.
func ParseRecording(text []byte) (*Recording, error) {
	files := map[string][]byte{}
	name := ""
	for line := range bytes.Lines(text) {
		next, ok := marker(line)
		if !ok {
			if name != "" {
				files[name] = append(files[name], line...)
			}
			continue
		}
		name = next
		if !fs.ValidPath(name) || name == "." {
			return nil, fmt.Errorf("%w: path %q: want a relative one without \"..\"", ErrRecording, name)
		}
		if _, twice := files[name]; twice {
			return nil, fmt.Errorf("%w: path %q occurs twice", ErrRecording, name)
		}
		files[name] = []byte{}
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%w: no file in it: want lines such as \"%s%s/online%s\"", ErrRecording, markerStart, cpuDir, markerEnd)
	}
	return newRecording(files)
}

// IsRecording reports whether a text looks like a recording: it contains a line that announces a file. ParseRecording
// may still refuse the text.
func IsRecording(text []byte) bool {
	for line := range bytes.Lines(text) {
		if _, ok := marker(line); ok {
			return true
		}
	}
	return false
}

const (
	markerStart = "-- "
	markerEnd   = " --"
)

// marker returns the path that a line of the form "-- path --" announces.
func marker(line []byte) (name string, ok bool) {
	rest, ok := bytes.CutPrefix(bytes.TrimRight(line, "\r\n"), []byte(markerStart))
	if !ok {
		return "", false
	}
	rest, ok = bytes.CutSuffix(rest, []byte(markerEnd))
	name = string(bytes.TrimSpace(rest))
	return name, ok && name != ""
}

func newRecording(files map[string][]byte) (*Recording, error) {
	r := &Recording{files: files, dirs: map[string][]fs.DirEntry{".": nil}}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		e := entry{name: path.Base(name), size: int64(len(files[name]))}
		for dir := path.Dir(name); ; dir = path.Dir(dir) {
			if _, isFile := files[dir]; isFile {
				return nil, fmt.Errorf("%w: path %q is a file and a directory", ErrRecording, dir)
			}
			_, known := r.dirs[dir]
			r.dirs[dir] = append(r.dirs[dir], e)
			if known {
				break
			}
			e = entry{name: path.Base(dir), dir: true}
		}
	}
	for _, entries := range r.dirs {
		slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	}
	return r, nil
}

// Format returns the recording as text, with an explanatory first line and the files sorted by path. The format
// requires a newline at the end of each file; Format adds missing newlines.
func (r *Recording) Format() []byte {
	var b bytes.Buffer
	b.WriteString("One machine, as berth topology reads it: berth topology --root THIS_FILE\n\n")
	for _, name := range slices.Sorted(maps.Keys(r.files)) {
		content := r.files[name]
		b.WriteString(markerStart + name + markerEnd + "\n")
		b.Write(content)
		if len(content) > 0 && content[len(content)-1] != '\n' {
			b.WriteByte('\n')
		}
	}
	return b.Bytes()
}

// With returns a recording that also has the given files, by path.
func (r *Recording) With(files map[string][]byte) (*Recording, error) {
	all := maps.Clone(r.files)
	maps.Copy(all, files)
	return newRecording(all)
}

// Len returns the number of files.
func (r *Recording) Len() int { return len(r.files) }

// ReadFile returns a copy of one file.
func (r *Recording) ReadFile(name string) ([]byte, error) {
	data, ok := r.files[name]
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return bytes.Clone(data), nil
}

// ReadDir returns the entries of a directory, sorted by name.
func (r *Recording) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, ok := r.dirs[name]
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return slices.Clone(entries), nil
}
