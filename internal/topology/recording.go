package topology

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/txtar"
)

// Recording is a machine in one text: the files that Discover reads, in the
// txtar format ("-- path --" before each file). It is an fs.FS with the same
// paths as the host. Unpacked into a directory it is a tree for --root.
type Recording struct {
	files map[string][]byte
	dirs  map[string][]fs.DirEntry
}

// ParseRecording reads a recording. A path that leaves the tree, occurs twice
// or is both file and directory, and a text without any file, are ErrRecording.
func ParseRecording(text []byte) (*Recording, error) {
	archive := txtar.Parse(text)
	if len(archive.Files) == 0 {
		return nil, fmt.Errorf("%w: no file in it: want lines such as \"-- %s/online --\"", ErrRecording, cpuDir)
	}
	files := map[string][]byte{}
	for _, file := range archive.Files {
		if !fs.ValidPath(file.Name) || file.Name == "." {
			return nil, fmt.Errorf("%w: path %q: want a relative one without \"..\"", ErrRecording, file.Name)
		}
		if _, twice := files[file.Name]; twice {
			return nil, fmt.Errorf("%w: path %q occurs twice", ErrRecording, file.Name)
		}
		files[file.Name] = file.Data
	}
	return newRecording(files)
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

// Format returns the text, files sorted by path. A line of comment explains
// it to whoever opens the file.
func (r *Recording) Format() []byte {
	archive := &txtar.Archive{Comment: []byte("One machine, as berth topology reads it: berth topology --root THIS_FILE\n\n")}
	for _, name := range slices.Sorted(maps.Keys(r.files)) {
		archive.Files = append(archive.Files, txtar.File{Name: name, Data: r.files[name]})
	}
	return txtar.Format(archive)
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
