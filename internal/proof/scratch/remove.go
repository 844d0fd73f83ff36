package scratch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-project/berth/internal/engine/hostwrite"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/linux/hostfs"
)

const (
	// patience is how long to wait for killed processes and busy groups.
	patience = 10 * time.Second
	pause    = 5 * time.Millisecond
)

// errStillThere says that processes or groups outlived patience.
var errStillThere = errors.New("still there")

// errSelf says that the group to be killed contains the caller.
var errSelf = errors.New("the calling process is in it")

// Kill kills all processes in the group and below it, and returns when none is left. It refuses when the caller is
// among them.
func (g *Group) Kill() error { return kill(g.host, g.path) }

// kill repeats until the group is empty, because a process may fork in the meantime. A group that is gone is empty.
func kill(host *cgroup.Host, path string) error {
	for end := time.Now().Add(patience); ; time.Sleep(pause) {
		pids, err := processes(host, path)
		switch {
		case err != nil:
			return fmt.Errorf("kill %q: %w", path, err)
		case len(pids) == 0:
			return nil
		case slices.Contains(pids, os.Getpid()):
			return fmt.Errorf("kill %q: %w", path, errSelf)
		case time.Now().After(end):
			return fmt.Errorf("kill %q: processes %v: %w", path, pids, errStillThere)
		}
		for _, pid := range pids {
			if err := killOne(host, path, pid); err != nil {
				return fmt.Errorf("kill %q: %w", path, err)
			}
		}
	}
}

func processes(host *cgroup.Host, path string) ([]int, error) {
	pids, err := cgroup.Peek(host, path, (*cgroup.Group).Procs)
	if errors.Is(err, cgroup.ErrNoGroup) {
		return nil, nil
	}
	return pids, err
}

// killOne kills a process only while it is in the group. It finds the process's group only after a descriptor pins the
// process, so that it does not kill another process that got the same id.
func killOne(host *cgroup.Host, path string, pid int) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("process %d: %w", pid, err)
	}
	defer unix.Close(fd) //nolint:errcheck // nothing to lose
	in, err := host.PathOf(pid)
	if err != nil || (in != path && !strings.HasPrefix(in, path+"/")) {
		return nil // ended or left in the meantime; the caller lists again
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("process %d: %w", pid, err)
	}
	return nil
}

// remove kills and removes the group at path and all below it, in every hierarchy.
func remove(host *cgroup.Host, path string) error {
	errs := []error{kill(host, path)}
	for _, hier := range hierarchies(host, append(cgroup.Controllers(), optional()...)) {
		errs = append(errs, removeTree(host.Root(), hier.Mount+"/"+path))
	}
	return errors.Join(errs...)
}

// removeTree removes the directories, deepest first. A group is busy for a moment after its last process ended.
func removeTree(root *hostfs.Root, name string) error {
	below, err := groupsIn(root, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, sub := range below {
		if err := removeTree(root, name+"/"+sub); err != nil {
			return err
		}
	}
	for end := time.Now().Add(patience); ; time.Sleep(pause) {
		err := hostwrite.RemoveDir(root, name)
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if !errors.Is(err, unix.EBUSY) || time.Now().After(end) {
			return fmt.Errorf("remove group: %w", err)
		}
	}
}

// Sweep removes the groups directly below parent whose names start with prefix and which no living process owns (see
// Name), with everything that runs in them. These are the remains of killed runs. Sweep returns the paths of the
// removed groups. Then it undoes what processes that no longer exist enabled for their groups, in parent and above. The
// prefix itself must start with Prefix.
func Sweep(host *cgroup.Host, parent, prefix string) (removed []string, err error) {
	if !strings.HasPrefix(prefix, Prefix) {
		return nil, fmt.Errorf("%w: prefix %q, must start with %s", ErrBadName, prefix, Prefix)
	}
	left := map[string]bool{}
	for _, hier := range hierarchies(host, append(cgroup.Controllers(), optional()...)) {
		names, err := groupsIn(host.Root(), hier.Mount+"/"+parent)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("sweep: %w", err)
		}
		for _, name := range names {
			if strings.HasPrefix(name, prefix) && !owned(name) {
				left[strings.TrimPrefix(parent+"/"+name, "/")] = true
			}
		}
	}
	var errs []error
	for path := range left {
		if err := remove(host, path); err != nil {
			errs = append(errs, err)
			continue
		}
		removed = append(removed, path)
	}
	errs = append(errs, undoLeft(host, parent))
	slices.Sort(removed)
	return removed, errors.Join(errs...)
}

// owned reports whether the process id at the end of name is that of a living process.
func owned(name string) bool {
	pid, err := strconv.Atoi(name[strings.LastIndexByte(name, '-')+1:])
	return err == nil && pid > 0 && alive(pid)
}

// alive reports whether a process with this id exists.
func alive(pid int) bool {
	return unix.Kill(pid, 0) == nil || errors.Is(unix.Kill(pid, 0), unix.EPERM)
}
