package hostfs

import (
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// FS returns the tree as a file system. Names in it have no leading slash. Its
// sub trees (fs.Sub) hold their directory, which spares the kernel the way there.
// Such a sub tree is an io.Closer; one that is not closed is closed when it is collected.
func (r *Root) FS() fs.FS { return tree{r.dir} }

// tree is a held directory as a file system.
type tree struct{ top *os.File }

// held is a tree that was opened for itself.
type held struct{ tree }

// Close releases the directory.
func (h held) Close() error {
	return h.top.Close() //nolint:wrapcheck // a file system hands its errors on
}

// open opens a name that a file system allows.
func (t tree) open(op, name string, flag int) (*os.File, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: op, Path: name, Err: fs.ErrInvalid}
	}
	return beneath(t.top, name, flag)
}

// Sub holds a directory of the tree.
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
		return nil, err // not f, which would be a File that is nil
	}
	return f, nil
}

// ReadFile returns the whole file.
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

// Stat describes a file.
func (t tree) Stat(name string) (fs.FileInfo, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "stat", Path: name, Err: fs.ErrInvalid}
	}
	return stat(t.top, name)
}
