package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// hierarchies returns the mount points of all cgroup hierarchies. A machine with only version 2 has one.
func hierarchies() ([]string, error) {
	text, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return nil, err
	}
	var all []string
	for line := range strings.Lines(string(text)) {
		// Version 1 controllers may share a mount, and links may lead to it.
		if fields := strings.Fields(line); len(fields) > 2 && strings.HasPrefix(fields[2], "cgroup") && strings.HasPrefix(fields[1], "/sys/fs/cgroup") {
			all = append(all, fields[1])
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%w: no cgroup hierarchy below /sys/fs/cgroup", ErrHost)
	}
	return all, nil
}

// system is the group of the servers, beside those of the pods.
const system = "system"

// makeGroups makes Group in each hierarchy. It moves this process into the group for servers, where it inherits no
// limit, in the hierarchy that counts processes or in the only hierarchy.
func makeGroups() error {
	roots, err := hierarchies()
	if err != nil {
		return err
	}
	home := roots[0]
	for _, root := range roots {
		dir := root + Group
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		if err := inheritCPUs(root, dir); err != nil {
			return err
		}
		if exists(dir + "/pids.max") {
			home = root
		}
	}
	if err := os.MkdirAll(filepath.Join(home+Group, system), 0o755); err != nil {
		return err
	}
	return Enter()
}

// Enter moves this process, and all processes that it starts later, into the group of the cluster's servers, so that
// Down ends them. Without a cluster it returns ErrNotUp.
func Enter() error {
	roots, err := hierarchies()
	if err != nil {
		return err
	}
	for _, root := range roots {
		if dir := filepath.Join(root+Group, system); exists(dir) {
			return os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(os.Getpid())), 0)
		}
	}
	return ErrNotUp
}

// inheritCPUs gives a new group of the version 1 cpuset controller the CPUs and memory nodes of its parent. Without
// them no process can run in the group.
func inheritCPUs(parent, dir string) error {
	for _, name := range []string{"cpuset.cpus", "cpuset.mems"} {
		if !exists(filepath.Join(parent, name)) {
			return nil
		}
		text, err := os.ReadFile(filepath.Join(parent, name))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0); err != nil {
			return err
		}
	}
	return nil
}

// groupDirs returns all directories at and below Group, the deepest first.
func groupDirs() ([]string, error) {
	roots, err := hierarchies()
	var all []string
	for _, root := range roots {
		walkErr := filepath.WalkDir(root+Group, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				all = append(all, path)
			}
			if errors.Is(err, fs.ErrNotExist) {
				return nil // It has ended in between, or never existed.
			}
			return err
		})
		err = errors.Join(err, walkErr)
	}
	slices.Reverse(all)
	return all, err
}

// killLimit is how long processes may take to end after SIGKILL.
const killLimit = 3 * time.Minute

// killAll kills every process of the cluster and removes its groups.
func killAll(ctx context.Context) error {
	for deadline := time.Now().Add(killLimit); ; {
		dirs, err := groupDirs()
		if err != nil {
			return err
		}
		if len(dirs) == 0 {
			return nil
		}
		killed := 0
		for _, dir := range dirs {
			killed += killGroup(dir)
		}
		if killed == 0 {
			removeGroups(dirs)
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("processes of the cluster, or their groups, are still there after %v: %s", killLimit, dirs[0])
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// killGroup kills the processes of one group and returns their number. A group that can no longer be read has none.
func killGroup(dir string) int {
	// A frozen process of version 1 dies only when it is thawed.
	if state := filepath.Join(dir, "freezer.state"); exists(state) {
		_ = os.WriteFile(state, []byte("THAWED"), 0) // The next round tries again.
	}
	text, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if err != nil {
		return 0
	}
	count := 0
	for field := range strings.FieldsSeq(string(text)) {
		pid, err := strconv.Atoi(field)
		if err != nil || pid <= 1 || pid == os.Getpid() {
			continue
		}
		count++
		_ = unix.Kill(pid, unix.SIGKILL) // It may already be gone, as intended.
	}
	return count
}

// removeGroups removes groups without processes. The next round tries the other groups again.
func removeGroups(dirs []string) {
	for _, dir := range dirs {
		_ = os.Remove(dir) // The next round, or the deadline, decides.
	}
}
