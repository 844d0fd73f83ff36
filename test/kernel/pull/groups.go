package main

import (
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strconv"
	"strings"
)

// side is a process of the benchmark in the group of an arm.
type side struct {
	arm     string
	role    role
	process string
	threads []int
}

// groups finds the processes of an arm.
type groups struct {
	proc   fs.FS           // The file system /proc.
	before map[string]bool // Processes from before the benchmark, which need no check.
	name   *regexp.Regexp  // Matches the group of an arm in a line of /proc/PID/cgroup.
}

func newGroups(proc fs.FS) (*groups, error) {
	g := &groups{proc: proc, before: map[string]bool{}, name: regexp.MustCompile(`(?m)/berth-bench-(victim|hogs)-(.+)-[0-9]+$`)}
	all, err := g.processes()
	for _, process := range all {
		g.before[process] = true
	}
	return g, err
}

// processes lists the processes that started later.
func (g *groups) processes() (all []string, err error) {
	entries, err := fs.ReadDir(g.proc, ".")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	for _, e := range entries {
		if name := e.Name(); name[0] >= '0' && name[0] <= '9' && !g.before[name] {
			all = append(all, name)
		}
	}
	return all, nil
}

// look returns the running processes of arms.
func (g *groups) look() (all []side, err error) {
	processes, err := g.processes()
	for _, process := range processes {
		one, is, looking := g.side(process)
		if looking != nil && !isGone(looking) {
			err = errors.Join(err, looking)
		}
		if is && looking == nil {
			all = append(all, one)
		}
	}
	return all, err
}

// side checks one process.
func (g *groups) side(process string) (s side, is bool, err error) {
	text, err := fs.ReadFile(g.proc, process+"/cgroup")
	if err != nil {
		return s, false, fmt.Errorf("group: %w", err)
	}
	found := g.name.FindSubmatch(text)
	if found == nil {
		return s, false, nil
	}
	s = side{arm: strings.ReplaceAll(string(found[2]), "-", " "), role: server, process: process}
	if string(found[1]) == "hogs" {
		s.role = hog
	}
	threads, err := fs.ReadDir(g.proc, process+"/task")
	if err != nil {
		return s, false, fmt.Errorf("threads: %w", err)
	}
	for _, t := range threads {
		id, err := strconv.Atoi(t.Name())
		if err != nil {
			return s, false, fmt.Errorf("threads of %s: %w", process, err)
		}
		s.threads = append(s.threads, id)
	}
	return s, true, nil
}
