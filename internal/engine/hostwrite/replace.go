package hostwrite

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/berth-project/berth/internal/linux/hostfs"
)

// Aside is the name of the file that is to replace name. It begins with a dot, so that boot loaders and shell patterns
// ignore it.
func Aside(name string) string { return ".berth-" + name }

// newMode is the mode of a file that did not exist before.
const newMode = 0o644

// Replace replaces the file name by a file with this content, or makes it. A reader finds the old file or the new file,
// also after a power loss. Mode, owner and extended attributes are those of the old file. After an error name is
// unchanged, except when only the final sync of the directory failed.
func Replace(d *hostfs.Dir, name, content string) error {
	f, err := made(d, Aside(name))
	if err != nil {
		return d.Explain("make", Aside(name), err)
	}
	_, err = f.WriteString(content)
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(d.Explain("write", Aside(name), err), Clear(d, name))
	}
	return TakeOver(d, name)
}

// TakeOver replaces the file name by the existing file Aside(name), as Replace does.
func TakeOver(d *hostfs.Dir, name string) error {
	err := likened(d, name)
	if err == nil {
		err = within(d, func(root *os.Root) error { return root.Rename(Aside(name), name) })
	}
	if err != nil {
		return errors.Join(d.Explain("replace", name, err), Clear(d, name))
	}
	return synced(d)
}

// likened copies mode, owner and extended attributes of the replaced file to the file aside, and syncs that file to
// disk.
func likened(d *hostfs.Dir, name string) error {
	next, err := d.Open(Aside(name), os.O_WRONLY)
	if err != nil {
		return err
	}
	defer next.Close()
	before, err := d.Open(name, os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return errors.Join(next.Chmod(newMode), next.Sync())
	}
	if err != nil {
		return err
	}
	defer before.Close()
	info, err := before.Stat()
	if err != nil {
		return err //nolint:wrapcheck // the caller adds the path
	}
	made, err := next.Stat()
	if err != nil {
		return err //nolint:wrapcheck // the caller adds the path
	}
	if was, is := info.Sys().(*syscall.Stat_t); is && !sameOwner(was, made) { // FAT has no owners, and refuses a change
		err = next.Chown(int(was.Uid), int(was.Gid))
	}
	return errors.Join(err, attributes(before, next), next.Chmod(info.Mode()), next.Sync())
}

func sameOwner(a *syscall.Stat_t, made fs.FileInfo) bool {
	b, is := made.Sys().(*syscall.Stat_t)
	return is && a.Uid == b.Uid && a.Gid == b.Gid
}

// attributes copies the extended attributes, such as SELinux labels and access lists.
func attributes(from, to *os.File) error {
	names := make([]byte, 1<<16)
	n, err := unix.Flistxattr(int(from.Fd()), names)
	if errors.Is(err, unix.ENOTSUP) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list extended attributes: %w", err)
	}
	value, has := make([]byte, 1<<16), make([]byte, 1<<16)
	for name := range strings.SplitSeq(strings.TrimSuffix(string(names[:n]), "\x00"), "\x00") {
		if name == "" {
			continue
		}
		n, err := unix.Fgetxattr(int(from.Fd()), name, value)
		m, errHas := unix.Fgetxattr(int(to.Fd()), name, has)
		if err == nil && (errHas != nil || !bytes.Equal(value[:n], has[:m])) { // FAT lists an SELinux label, and refuses to set it
			err = unix.Fsetxattr(int(to.Fd()), name, value[:n], 0)
		}
		if err != nil {
			return fmt.Errorf("copy extended attribute %s: %w", name, err)
		}
	}
	return nil
}

// Remove removes a file. A missing file is no error.
func Remove(d *hostfs.Dir, name string) error {
	if err := removed(d, name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return d.Explain("remove", name, err)
	}
	return synced(d)
}

// Clear removes the files that an interrupted Replace left, or an interrupted program that was to make the file aside.
func Clear(d *hostfs.Dir, name string) error {
	for _, left := range []string{Aside(name), Aside(name) + ".new"} {
		if err := removed(d, left); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return d.Explain("remove", left, err)
		}
	}
	return nil
}

// within calls do with a directory as an os.Root.
func within(d *hostfs.Dir, do func(*os.Root) error) error {
	root, err := d.Root()
	if err != nil {
		return err
	}
	defer root.Close()
	return do(root)
}

// made opens an empty file for writing, and creates it if necessary.
func made(d *hostfs.Dir, name string) (f *os.File, err error) {
	err = within(d, func(root *os.Root) (err error) {
		f, err = root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, newMode)
		return err //nolint:wrapcheck // the caller adds the path
	})
	return f, err
}

func removed(d *hostfs.Dir, name string) error {
	return within(d, func(root *os.Root) error { return root.Remove(name) })
}

// synced syncs the entries of a directory to disk.
func synced(d *hostfs.Dir) error {
	f, err := d.Open(".", os.O_RDONLY)
	if err == nil {
		err = errors.Join(f.Sync(), f.Close())
	}
	if err != nil {
		return d.Explain("sync", ".", err)
	}
	return nil
}

// InPlace writes the whole file system of a directory to its disk (syncfs(2)). A sync of a file may leave the change in
// the log of the file system only, which a boot loader does not read: after a power loss it would find the former
// directory, with blocks that may have other content by then. syncfs also writes the changed blocks of ext4 and FAT to
// their places (sync_filesystem in fs/sync.c). XFS does that half a minute later.
func InPlace(d *hostfs.Dir) error {
	f, err := d.Open(".", os.O_RDONLY)
	if err == nil {
		err = errors.Join(unix.Syncfs(int(f.Fd())), f.Close())
	}
	if err != nil {
		return d.Explain("sync the file system of", ".", err)
	}
	return nil
}

// immutable is FS_IMMUTABLE_FL of linux/fs.h.
const immutable = 0x10

// Variable sets an EFI variable, or removes it if data is empty. The kernel protects most variables by the attribute
// immutable, and requires one write of the whole value.
func Variable(d *hostfs.Dir, name string, data []byte) error {
	if f, err := d.Open(name, os.O_RDONLY); err == nil {
		if flags, err := unix.IoctlGetInt(int(f.Fd()), unix.FS_IOC_GETFLAGS); err == nil && flags&immutable != 0 {
			_ = unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, flags&^immutable) // the write says whether it helped
		}
		_ = f.Close()
	}
	if len(data) == 0 {
		return Remove(d, name)
	}
	f, err := made(d, name)
	if err != nil {
		return d.Explain("make", name, err)
	}
	if err := errors.Join(write(f, string(data)), f.Close()); err != nil {
		return errors.Join(d.Explain("write", name, err), removed(d, name))
	}
	return nil
}
