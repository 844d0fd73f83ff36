package hostfs

import (
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// FS returns the tree as a file system. Names in it have no leading slash. A subtree (fs.Sub) keeps its directory open,
// which saves the kernel the path lookup. The subtree is an io.Closer; without Close it is closed when it is garbage
// collected.
func (r *Root) FS() fs.FS { return tree{r.dir} }

// tree is an open directory as a file system.
type tree struct{ top *os.File }

// held is a tree with a directory of its own to close.
type held struct{ tree }

// Close closes the directory.
func (h held) Close() error {
	return h.top.Close() //nolint:wrapcheck // a file system hands its errors on
}

// open opens name if it is a valid path of a file system.
func (t tree) open(op, name string, flag int) (*os.File, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: op, Path: name, Err: fs.ErrInvalid}
	}
	return beneath(t.top, name, flag)
}

// Sub opens a directory of the tree as a file system.
func (t tree) Sub(name string) (fs.FS, error) {
	sub, err := t.open("sub", name, unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	return held{tree{sub}}, nil
}

// Open opens a file or a directory for reading.
func (t tree) Open(name string) (fs.File, error) {
	f, err := t.open("open", name, os.O_RDONLY)
	if err != nil {
		return nil, err // not f, which would be a non-nil File with a nil pointer
	}
	return f, nil
}

// ReadFile returns the content of the whole file.
func (t tree) ReadFile(name string) ([]byte, error) {
	f, err := t.open("read", name, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	return readAll(f, name)
}

// ReadDir returns the entries of a directory, sorted by name.
func (t tree) ReadDir(name string) ([]fs.DirEntry, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "list", Path: name, Err: fs.ErrInvalid}
	}
	return readDir(t.top, name, name)
}

// Stat returns the FileInfo of a file.
func (t tree) Stat(name string) (fs.FileInfo, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "stat", Path: name, Err: fs.ErrInvalid}
	}
	return stat(t.top, name)
}
