package topology

import (
	"bytes"
	"io"
	"io/fs"
	"path"
	"time"
)

// Open opens a file or a directory for reading.
func (r *Recording) Open(name string) (fs.File, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	if content, ok := r.files[name]; ok {
		return &openFile{entry{name: path.Base(name), size: int64(len(content))}, bytes.NewReader(content)}, nil
	}
	if entries, ok := r.dirs[name]; ok {
		return &openDir{openFile{entry{name: path.Base(name), dir: true}, bytes.NewReader(nil)}, entries}, nil
	}
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
}

// entry describes a file or directory of a recording.
type entry struct {
	name string
	size int64
	dir  bool
}

func (e entry) Name() string               { return e.name }
func (e entry) Size() int64                { return e.size }
func (e entry) IsDir() bool                { return e.dir }
func (e entry) ModTime() time.Time         { return time.Time{} }
func (e entry) Sys() any                   { return nil }
func (e entry) Type() fs.FileMode          { return e.Mode().Type() }
func (e entry) Info() (fs.FileInfo, error) { return e, nil }
func (e entry) String() string             { return fs.FormatDirEntry(e) }

func (e entry) Mode() fs.FileMode {
	if e.dir {
		return fs.ModeDir | 0o555
	}
	return 0o644
}

// openFile is an open file.
type openFile struct {
	entry
	content *bytes.Reader
}

func (f *openFile) Stat() (fs.FileInfo, error) { return f.entry, nil }
func (f *openFile) Close() error               { return nil }

func (f *openFile) Read(p []byte) (int, error) {
	if f.dir {
		return 0, &fs.PathError{Op: "read", Path: f.name, Err: fs.ErrInvalid}
	}
	return f.content.Read(p) //nolint:wrapcheck // io.EOF has to stay as it is
}

// openDir is an open directory.
type openDir struct {
	openFile
	rest []fs.DirEntry
}

// ReadDir returns the next n entries, or all remaining entries if n is not positive.
func (d *openDir) ReadDir(n int) ([]fs.DirEntry, error) {
	count := len(d.rest)
	if n > 0 {
		if count == 0 {
			return nil, io.EOF
		}
		count = min(n, count)
	}
	batch := d.rest[:count:count]
	d.rest = d.rest[count:]
	return batch, nil
}
