package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/berth-project/berth/internal/linux/hostfs"
)

const procsFile = "cgroup.procs"

// Procs returns the sorted ids of the processes in the group and all groups below it, without duplicates. It reads
// cgroup.procs in the hierarchy of the cpu controller, or else of the first controller that has the group. Processes
// outside the reader's pid namespace have no id there and are left out. Groups that vanish during the call are ignored;
// if the group itself vanishes, the error is ErrNoGroup.
func (g *Group) Procs() ([]int, error) {
	pids, _, err := g.Processes()
	return pids, err
}

// OwnProcs returns the ids of the processes in the group itself, without the groups below it, and otherwise behaves
// like Procs. A threaded group has none, because its domain lists the processes.
func (g *Group) OwnProcs() ([]int, error) {
	top, err := g.top()
	if err != nil {
		return nil, err
	}
	pids, _, err := g.host.procsIn(top)
	switch {
	case vanished(err):
		return nil, fmt.Errorf("%w %q: %w", ErrNoGroup, g.path, err)
	case err != nil:
		return nil, fmt.Errorf("processes of %q: %w", g.path, err)
	}
	slices.Sort(pids)
	return slices.Compact(pids), nil
}

// Processes returns the ids of Procs, and the number of processes without an id here. v1 does not list processes
// without an id: there, foreign is 1 if the list is empty and such processes may exist.
func (g *Group) Processes() (pids []int, foreign int, err error) { return ProcessesOf(g, g.home()) }

// ProcessesOf is like Processes, in the hierarchy of controller c.
func ProcessesOf(g *Group, c Controller) (pids []int, foreign int, err error) {
	top, err := topOf(g, c)
	if err != nil {
		return nil, 0, err
	}
	err = g.host.walk(top, func(path string, _ int) error {
		found, zeros, err := g.host.procsIn(path)
		if vanished(err) {
			return nil
		}
		pids, foreign = append(pids, found...), foreign+zeros
		return err
	})
	if err != nil {
		return nil, 0, fmt.Errorf("processes of %q: %w", g.path, err)
	}
	if len(pids) == 0 && g.host.omits(c) && g.host.mayHaveTasks(g.path) {
		foreign = 1
	}
	slices.Sort(pids)
	return slices.Compact(pids), foreign, nil
}

// top returns the group's directory in the hierarchy of its home controller.
func (g *Group) top() (string, error) { return topOf(g, g.home()) }

// topOf returns the group's directory in the hierarchy of a controller.
func topOf(g *Group, c Controller) (string, error) {
	dir, err := g.Dir(c)
	if err != nil {
		return "", err
	}
	if err := dir.Alive(); err != nil {
		return "", g.missing(c, err)
	}
	return g.host.controllers[c].Mount + "/" + g.path, nil
}

// procsIn reads the processes of the group at path, without the groups below, as the kernel lists them.
func (h *Host) procsIn(path string) (pids []int, foreign int, err error) {
	return h.idsIn(path, procsFile)
}

// idsIn reads the processes or threads that a file of the group at path lists. foreign counts the entries that belong
// to other pid namespaces.
func (h *Host) idsIn(path, file string) (ids []int, foreign int, err error) {
	data, err := h.root.ReadFile(path + "/" + file)
	if errors.Is(err, syscall.EOPNOTSUPP) { // a threaded group: its domain lists its processes
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, fmt.Errorf("read processes: %w", err)
	}
	if ids, foreign, err = parsePIDs(string(data)); err != nil {
		return nil, 0, fmt.Errorf("%s of %q: %w", file, path, err)
	}
	if h.allSeen {
		// A task without an id, on a host where all tasks have one, is just being reaped. __unhash_process
		// (kernel/exit.c) removes its id between the search for the next task and cgroup_procs_show
		// (kernel/cgroup/cgroup.c).
		foreign = 0
	}
	return ids, foreign, nil
}

// home returns the first controller whose hierarchy has the group.
func (g *Group) home() Controller {
	for _, c := range Controllers() {
		if _, err := g.Dir(c); err == nil {
			return c
		}
	}
	return CPU
}

func parsePIDs(text string) (pids []int, zeros int, err error) {
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n\x00")
		if line == "" {
			continue
		}
		pid, err := strconv.ParseInt(line, 10, 32)
		if err != nil || pid < 0 {
			return nil, 0, fmt.Errorf("process id %q: %w", line, ErrMalformed)
		}
		if pid == 0 {
			zeros++
			continue
		}
		pids = append(pids, int(pid))
	}
	return pids, zeros, nil
}

// maxDepth bounds a walk: a hierarchy has no loops, but a recorded tree might.
const maxDepth = 64

// walk calls visit for the directory at path and every directory below it, parents first, with the depth below path.
// Directories that vanish are ignored.
func (h *Host) walk(path string, visit func(path string, depth int) error) error {
	type place struct {
		path  string
		depth int
	}
	for todo := []place{{path, 0}}; len(todo) > 0; {
		at := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if err := visit(at.path, at.depth); err != nil {
			return err
		}
		entries, err := h.root.ReadDir(at.path)
		if vanished(err) || at.depth == maxDepth {
			continue
		}
		if err != nil {
			return fmt.Errorf("walk groups: %w", err)
		}
		for _, e := range slices.Backward(entries) {
			if e.IsDir() {
				todo = append(todo, place{at.path + "/" + e.Name(), at.depth + 1})
			}
		}
	}
	return nil
}

func vanished(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, hostfs.ErrGone)
}

// Below returns the paths of all groups below g in the hierarchy of c, parents before their children. Groups that
// vanish during the call are ignored. For a group without children the cost is one stat. The errors are those of Dir.
func (g *Group) Below(c Controller) ([]string, error) {
	held, err := g.Dir(c)
	if err != nil {
		return nil, err
	}
	if some, err := held.HasSubdirs(); err == nil && !some {
		return nil, nil
	}
	mount := g.host.controllers[c].Mount + "/"
	var paths []string
	err = g.host.walk(mount+g.path, func(dir string, depth int) error {
		if depth > 0 {
			paths = append(paths, strings.TrimPrefix(dir, mount))
		}
		return nil
	})
	return paths, err
}

// Children returns the paths of the groups right below g in the hierarchy of c. For a group without children the cost
// is one stat. The errors are those of Dir.
func (g *Group) Children(c Controller) ([]string, error) {
	dir, err := g.Dir(c)
	if err != nil {
		return nil, err
	}
	if some, err := dir.HasSubdirs(); err != nil || !some {
		return nil, err
	}
	entries, err := dir.ReadDir()
	if err != nil {
		return nil, fmt.Errorf("groups below %q: %w", g.path, err)
	}
	var paths []string
	for _, e := range entries {
		if e.IsDir() {
			paths = append(paths, g.path+"/"+e.Name())
		}
	}
	return paths, nil
}
