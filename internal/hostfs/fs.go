package hostfs

import (
	"io/fs"
	"os"
)

// FS returns the tree as a file system. Names in it have no leading slash. Its
// sub trees (fs.Sub) hold their directory, which spares a reader of many deep
// names the way there: every element of a name costs an open. Such a sub tree
// is an io.Closer; one that is not closed is closed when it is collected.
func (r *Root) FS() fs.FS { return tree{r.dir} }

// tree is an os.Root as a file system.
type tree struct{ dir *os.Root }

// held is a tree that was opened for itself.
type held struct{ tree }

// Close releases the directory.
func (h held) Close() error {
	return h.dir.Close() //nolint:wrapcheck // a file system hands its errors on
}

// Sub holds a directory of the tree.
func (t tree) Sub(name string) (fs.FS, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "sub", Path: name, Err: fs.ErrInvalid}
	}
	sub, err := t.dir.OpenRoot(name)
	if err != nil {
		return nil, err //nolint:wrapcheck // a file system hands its errors on
	}
	return held{tree{sub}}, nil
}

// Open opens a file or a directory for reading.
func (t tree) Open(name string) (fs.File, error) {
	return t.dir.FS().Open(name) //nolint:wrapcheck // a file system hands its errors on
}

// ReadFile returns the whole file.
func (t tree) ReadFile(name string) ([]byte, error) {
	return fs.ReadFile(t.dir.FS(), name) //nolint:wrapcheck // a file system hands its errors on
}

// ReadDir returns the entries of a directory, sorted by name.
func (t tree) ReadDir(name string) ([]fs.DirEntry, error) {
	return fs.ReadDir(t.dir.FS(), name) //nolint:wrapcheck // a file system hands its errors on
}

// Stat describes a file.
func (t tree) Stat(name string) (fs.FileInfo, error) {
	return fs.Stat(t.dir.FS(), name) //nolint:wrapcheck // a file system hands its errors on
}
