package scratch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/linux/hostfs"
)

// attribute, followed by the controller's name, is an extended attribute of a v2 group's directory. It says who enabled
// the controller for the groups below. It lives as long as the directory, as does the state that it describes, and
// Sweep finds it after its process was killed. Its lines are the process id and the names of the groups that were below
// at that time; the kernel allows no newline in these names.
const attribute = "trusted.berth.enabled."

// maxAttribute is the kernel's limit of an extended attribute (XATTR_SIZE_MAX).
const maxAttribute = 64 << 10

// note records e before the controller is enabled. Without the right to do so (inside a user namespace) or without
// support, e is remembered in memory only.
func note(root *hostfs.Root, e enabled) error {
	text := strings.Join(append([]string{strconv.Itoa(e.owner)}, e.neighbours...), "\n")
	err := within(root, e.dir, func(fd int) error {
		return unix.Fsetxattr(fd, attribute+string(e.controller), []byte(text), 0)
	})
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOTSUP) || errors.Is(err, unix.E2BIG) || errors.Is(err, unix.ENOSPC) {
		return nil
	}
	return err
}

// noted returns what is recorded about the controller in the directory name.
func noted(root *hostfs.Root, name string, c cgroup.Controller) (e enabled, ok bool, err error) {
	buf := make([]byte, maxAttribute)
	n := 0
	err = within(root, name, func(fd int) (err error) {
		n, err = unix.Fgetxattr(fd, attribute+string(c), buf)
		return err //nolint:wrapcheck // within adds the path
	})
	if errors.Is(err, unix.ENODATA) || errors.Is(err, unix.ENOTSUP) || errors.Is(err, fs.ErrNotExist) {
		return enabled{}, false, nil
	}
	if err != nil {
		return enabled{}, false, err
	}
	lines := strings.Split(string(buf[:n]), "\n")
	owner, err := strconv.Atoi(lines[0])
	if err != nil {
		return enabled{}, false, fmt.Errorf("record of what is enabled in %s: %w", name, err)
	}
	return enabled{dir: name, controller: c, owner: owner, neighbours: lines[1:]}, true, nil
}

// forget removes the record of e.
func forget(root *hostfs.Root, e enabled) error {
	err := within(root, e.dir, func(fd int) error {
		return unix.Fremovexattr(fd, attribute+string(e.controller))
	})
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENODATA) || errors.Is(err, unix.ENOTSUP) {
		return nil
	}
	return err
}

// within opens the directory name for one call.
func within(root *hostfs.Root, name string, do func(fd int) error) error {
	dir, err := root.Dir(name)
	if err != nil {
		return fmt.Errorf("record of what is enabled: %w", err)
	}
	defer dir.Close()
	f, err := dir.Open(".", unix.O_DIRECTORY)
	if err != nil {
		return fmt.Errorf("record of what is enabled in %s: %w", dir.Path(), err)
	}
	defer f.Close()
	if err := do(int(f.Fd())); err != nil {
		return fmt.Errorf("record of what is enabled in %s: %w", dir.Path(), os.NewSyscallError("xattr", err))
	}
	return nil
}

// undo disables what e says was enabled. A controller remains enabled where groups were made since then: they may rely
// on it, and disabling it would remove their limits. The kernel itself refuses while one of the groups passes the
// controller on. The record then remains for a later Sweep.
func undo(root *hostfs.Root, e enabled) error {
	now, err := groupsIn(root, e.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if slices.ContainsFunc(now, func(name string) bool { return !slices.Contains(e.neighbours, name) }) {
		return nil
	}
	err = write(root, e.dir, subtreeFile, "-"+string(e.controller))
	if errors.Is(err, unix.EBUSY) {
		return nil
	}
	if err != nil {
		return err
	}
	return forget(root, e)
}

// undoLeft undoes what processes that no longer exist enabled in parent and in the groups above it.
func undoLeft(host *cgroup.Host, parent string) error {
	var errs []error
	for _, c := range append(enabling(), optional()...) {
		hier, err := host.Hierarchy(c)
		if err != nil || hier.Version == 1 {
			continue
		}
		for _, dir := range slices.Backward(downTo(hier.Mount, parent)) {
			e, ok, err := noted(host.Root(), dir, c)
			if err == nil && ok && !alive(e.owner) {
				err = undo(host.Root(), e)
			}
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
