package hostfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// ID identifies a directory for as long as the machine runs: a cgroup directory that is made again gets another inode
// number. It does not identify anything after a reboot.
type ID struct {
	// Dev is the device number of the file system.
	Dev uint64 `json:"dev"`
	// Ino is the inode number.
	Ino uint64 `json:"ino"`
}

// String returns the identity as "dev:ino".
func (id ID) String() string { return fmt.Sprintf("%d:%d", id.Dev, id.Ino) }

// Dir is one directory that is kept open. It is safe for concurrent use.
type Dir struct {
	root *Root
	dir  *os.File
	name string
	id   ID

	mu   sync.Mutex
	lock *os.File // nil without a lock
}

// Dir opens the subdirectory name. The error is fs.ErrNotExist if it is missing.
func (r *Root) Dir(name string) (*Dir, error) { return r.hold(r.dir, name, local(name)) }

// Dir opens the directory name below this directory. The error is fs.ErrNotExist if it is missing. It costs less than
// Root.Dir, which looks up every directory on the way.
func (d *Dir) Dir(name string) (*Dir, error) {
	return d.root.hold(d.dir, name, path.Join(d.name, local(name)))
}

// hold opens the directory name below in; full is its name below the root.
func (r *Root) hold(in *os.File, name, full string) (*Dir, error) {
	sub, err := beneath(in, local(name), unix.O_DIRECTORY)
	if err != nil {
		return nil, classify("open directory", r.join(full), err)
	}
	info, err := sub.Stat()
	if err != nil {
		_ = sub.Close() // the first error is the one to report
		return nil, classify("stat", r.join(full), err)
	}
	return &Dir{root: r, dir: sub, name: full, id: IDOf(info)}, nil
}

// Path returns the directory's path on the machine that runs this program.
func (d *Dir) Path() string { return d.root.join(d.name) }

// ID returns the identity of the open directory.
func (d *Dir) ID() ID { return d.id }

// Open opens a file of the directory as os.OpenFile does, but never creates a file. It exists for package hostwrite,
// the only package that may open a file for writing.
func (d *Dir) Open(name string, flag int) (*os.File, error) {
	return beneath(d.dir, local(name), flag)
}

// Root returns the directory as an os.Root, which the caller closes. It exists for package hostwrite, which creates and
// removes files in it.
func (d *Dir) Root() (*os.Root, error) { return rootAt(d.dir) }

// Alive returns nil while the path still leads to the open directory. It returns ErrGone after the directory was
// removed, also if a new directory has the same name.
func (d *Dir) Alive() error {
	var st unix.Stat_t // the path may lead to any file by now: the identity decides
	err := unix.Fstatat(int(d.root.dir.Fd()), d.name, &st, 0)
	runtime.KeepAlive(d.root)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("directory %s: %w", d.Path(), ErrGone)
	case err != nil:
		return classify("stat", d.Path(), err)
	case ID{Dev: st.Dev, Ino: st.Ino} != d.id:
		return fmt.Errorf("directory %s was made again: %w", d.Path(), ErrGone)
	}
	return nil
}

// ReadFile returns the content of the whole file. A missing file is fs.ErrNotExist, but ErrGone if the directory itself
// is gone.
func (d *Dir) ReadFile(name string) ([]byte, error) {
	f, err := d.Open(name, os.O_RDONLY)
	if err != nil {
		return nil, d.Explain("open", name, err)
	}
	return readAll(f, d.file(name))
}

// Stat returns the identity and the mode of a file. Errors are as for ReadFile.
func (d *Dir) Stat(name string) (ID, fs.FileMode, error) {
	info, err := stat(d.dir, local(name))
	if err != nil {
		return ID{}, 0, d.Explain("stat", name, err)
	}
	return IDOf(info), info.Mode(), nil
}

// ReadDir returns the entries of the directory, sorted by name.
func (d *Dir) ReadDir() ([]fs.DirEntry, error) { return readDir(d.dir, ".", d.Path()) }

// HasSubdirs reports whether the directory may have subdirectories, by its link count: cgroup file systems count two,
// plus one for each subdirectory. On a file system that does not count subdirectories, HasSubdirs returns true.
func (d *Dir) HasSubdirs() (bool, error) {
	info, err := d.dir.Stat()
	if err != nil {
		return false, d.Explain("stat", ".", err)
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return !ok || stat.Nlink != 2, nil
}

// Keep opens a file for repeated reading. Errors are as for ReadFile.
func (d *Dir) Keep(name string) (*File, error) {
	f, err := d.Open(name, os.O_RDONLY)
	if err != nil {
		return nil, d.Explain("open", name, err)
	}
	return &File{file: f, fd: int(f.Fd()), path: d.file(name)}, nil
}

// Close closes the directory and releases its lock. Files opened by Keep stay open.
func (d *Dir) Close() error {
	unlocked := d.Unlock()
	if err := d.dir.Close(); err != nil {
		return errors.Join(unlocked, fmt.Errorf("close directory %s: %w", d.Path(), err))
	}
	return unlocked
}

// Explain wraps an error of the operation op on a file of the directory with the file's path. It distinguishes a
// missing file (fs.ErrNotExist) from a directory that no longer exists (ErrGone).
func (d *Dir) Explain(op, name string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		if gone := d.Alive(); errors.Is(gone, ErrGone) {
			return fmt.Errorf("%s %s: %w", op, d.file(name), gone)
		}
	}
	return classify(op, d.file(name), err)
}

func (d *Dir) file(name string) string { return d.root.join(d.name + "/" + name) }
