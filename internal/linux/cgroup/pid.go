package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"syscall"
)

// PathOf returns the group of a process in the hierarchy of the cpu controller, relative to the hierarchy's root as
// mounted here; "" is the root. The error is ErrNoProcess for a process that has ended. It is ErrNoGroup for a process
// outside the mounted part, for example in another container.
func (h *Host) PathOf(pid int) (string, error) {
	memberships, err := h.memberships(pid)
	if err != nil {
		return "", err
	}
	return h.pathIn(CPU, memberships, pid)
}

// membership is one line of /proc/PID/cgroup.
type membership struct {
	controllers []string // none for v2
	path        string
}

func (h *Host) memberships(pid int) ([]membership, error) {
	name := fmt.Sprintf("proc/%d/cgroup", pid)
	data, err := h.root.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return nil, fmt.Errorf("%w: %d", ErrNoProcess, pid)
	}
	if err != nil {
		return nil, fmt.Errorf("groups of process %d: %w", pid, err)
	}
	list, err := parseMemberships(string(data))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", h.root.Join(name), err)
	}
	return list, nil
}

// parseMemberships parses lines "id:controllers:path". The id does not tell the version; the line of v2 has no
// controllers.
func parseMemberships(text string) ([]membership, error) {
	var list []membership
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n\x00")
		if line == "" {
			continue
		}
		fields := strings.SplitN(line, ":", 3)
		if len(fields) != 3 || !strings.HasPrefix(fields[2], "/") {
			return nil, fmt.Errorf("line %q: %w", line, ErrMalformed)
		}
		m := membership{path: fields[2]}
		if fields[1] != "" {
			m.controllers = strings.Split(fields[1], ",")
		}
		list = append(list, m)
	}
	return list, nil
}

// pathIn returns the group of the process in the hierarchy of c.
func (h *Host) pathIn(c Controller, list []membership, pid int) (string, error) {
	hier, err := h.Hierarchy(c)
	if err != nil {
		return "", fmt.Errorf("group of process %d: %w", pid, err)
	}
	i := slices.IndexFunc(list, func(m membership) bool {
		if hier.Version == 2 {
			return len(m.controllers) == 0
		}
		return contains(m.controllers, c)
	})
	if i < 0 {
		return "", fmt.Errorf("group of process %d in the hierarchy of controller %s: %w", pid, c, ErrMalformed)
	}
	path, ok := below(hier.Root, strings.TrimSuffix(list[i].path, " (deleted)"))
	if !ok {
		return "", fmt.Errorf("%w: process %d is in %s, outside of %s, which is mounted at %s",
			ErrNoGroup, pid, list[i].path, hier.Root, hier.Mount)
	}
	return path, nil
}

// below returns path relative to root.
func below(root, path string) (string, bool) {
	if strings.HasPrefix(path, "/../") || path == "/.." {
		return "", false
	}
	if root == "/" || strings.HasPrefix(root, "/..") { // the mount is older than the cgroup namespace
		return strings.TrimPrefix(path, "/"), root == "/"
	}
	if path == root {
		return "", true
	}
	return strings.CutPrefix(path, root+"/")
}

// SoleGroup returns the path of the group that contains all the given processes and no others. It must not be the root,
// and no group below it may contain another process. SoleGroup moves no process. The error is ErrNotSole with the
// reason, or ErrNoProcess.
func (h *Host) SoleGroup(pids []int) (string, error) {
	if len(pids) == 0 {
		return "", fmt.Errorf("%w: no process given", ErrNotSole)
	}
	path, err := h.commonGroup(pids)
	if err != nil {
		return "", err
	}
	if path == "" {
		return "", fmt.Errorf("%w: process %d is in the root group, which has no limit of its own", ErrNotSole, pids[0])
	}
	g, err := h.Group(path)
	if err != nil {
		return "", err
	}
	defer g.Close()
	members, foreign, err := g.Processes()
	if err != nil {
		return "", err
	}
	for _, pid := range pids {
		if !slices.Contains(members, pid) {
			return "", fmt.Errorf("%w: %d is not a process of %q: a thread, or it has ended", ErrNotSole, pid, path)
		}
	}
	others := slices.DeleteFunc(members, func(pid int) bool { return slices.Contains(pids, pid) })
	if n := len(others) + foreign; n > 0 {
		return "", fmt.Errorf("%w: %q also holds %s", ErrNotSole, path, describe(others, n))
	}
	return path, nil
}

// commonGroup returns the group that contains all the processes. It must be the same in the hierarchies of the quota
// (cpu) and the usage counter (cpuacct).
func (h *Host) commonGroup(pids []int) (string, error) {
	common := ""
	for i, pid := range pids {
		list, err := h.memberships(pid)
		if err != nil {
			return "", err
		}
		path, err := h.pathIn(CPU, list, pid)
		if err != nil {
			return "", err
		}
		acct, err := h.pathIn(CPUAcct, list, pid)
		if err != nil {
			return "", err
		}
		if acct != path {
			return "", fmt.Errorf("%w: process %d is in %q for cpu and in %q for cpuacct", ErrNotSole, pid, path, acct)
		}
		if i > 0 && path != common {
			return "", fmt.Errorf("%w: process %d is in %q and process %d in %q", ErrNotSole, pids[0], common, pid, path)
		}
		common = path
	}
	return common, nil
}

// describe names up to three of n processes.
func describe(others []int, n int) string {
	var names []string
	for _, pid := range others[:min(len(others), 3)] {
		names = append(names, fmt.Sprint(pid))
	}
	if len(names) == 0 {
		return fmt.Sprintf("%d processes of other pid namespaces", n)
	}
	if rest := n - len(names); rest > 0 {
		return fmt.Sprintf("processes %s and %d more", strings.Join(names, ", "), rest)
	}
	return "process " + strings.Join(names, ", ")
}
