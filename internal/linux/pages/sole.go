package pages

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"
)

// mostMemories bounds the list that Sole returns: a process can have one piece of shared memory for each mapping.
const mostMemories = 1 << 12

// Sole returns the shared memory, by Mapping.Memory, that members have mapped and no other process of the host has
// mapped at this moment. It reads the maps of other processes only if members have shared memory. The error is ErrNice
// if this program may not move shared memory. With more than 4,096 pieces of memory, some are missing. If another
// process does not answer, the error is ErrStuck: the process may have mapped all of the memory. If a member does not
// answer, memory that only this member has mapped is missing.
//
// Another process may map the memory right afterwards. Sole ignores open descriptors of the memory and the group that
// is charged for it: neither shows where a page is used.
func Sole(k Kernel, members func() ([]int, error)) (map[string]bool, error) {
	if _, err := k.MovePages(0, []uint64{0}, nil, []int32{0}, moveAll); err != nil {
		return nil, fmt.Errorf("shared memory: %w", errors.Join(ErrNice, err))
	}
	inside, err := members()
	if err != nil {
		return nil, err
	}
	sole := map[string]bool{}
	for _, pid := range inside {
		if err := addMemories(k, pid, sole); err != nil {
			return nil, err
		}
	}
	if len(sole) == 0 {
		return sole, nil
	}
	all, err := numbers(k, "proc")
	if err != nil {
		return nil, fmt.Errorf("processes: %w", err)
	}
	slices.Sort(inside)
	for _, pid := range all {
		if _, is := slices.BinarySearch(inside, pid); is || len(sole) == 0 {
			continue
		}
		if err := strike(k, pid, sole, members); err != nil {
			return nil, err
		}
	}
	return sole, nil
}

// addMemories adds the shared memory that a process has mapped.
func addMemories(k Kernel, pid int, to map[string]bool) error {
	p, err := Open(k, pid)
	var all []Mapping
	if err == nil {
		all, err = p.Mappings()
	}
	for _, m := range all {
		if m.Memory != "" && len(to) < mostMemories {
			to[m.Memory] = true
		}
	}
	if errors.Is(err, ErrExited) || errors.Is(err, ErrStuck) { // Memory that only this member has mapped does not move.
		return nil
	}
	return err
}

// strike removes the memory that a process has mapped, unless the process has become a member in the meantime.
func strike(k Kernel, pid int, from map[string]bool, members func() ([]int, error)) error {
	has, err := mapped(k, pid, from)
	if len(has) == 0 || err != nil {
		return err
	}
	now, err := members()
	if err != nil || slices.Contains(now, pid) {
		return err
	}
	for _, memory := range has {
		delete(from, memory)
	}
	return nil
}

// mapped returns the given pieces of shared memory that a process has mapped, with any kind of mapping.
func mapped(k Kernel, pid int, some map[string]bool) (has []string, err error) {
	p, err := Open(k, pid)
	if err == nil {
		err = p.read("maps", func(f io.Reader) error {
			return eachLine(f, func(fields []string) error {
				if fields[inode] == "0" {
					return nil
				}
				if memory := fields[device] + " " + fields[inode]; some[memory] {
					has = append(has, memory)
				}
				return nil
			})
		})
	}
	if errors.Is(err, ErrExited) {
		return nil, nil
	}
	if err != nil {
		err = fmt.Errorf("mappings of process %d: %w", pid, err)
	}
	return has, err
}

// numbers returns the numeric names in a directory.
func numbers(k Kernel, name string) ([]int, error) {
	dir, err := k.Open(name)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	list, ok := dir.(fs.ReadDirFile)
	if !ok {
		return nil, ErrMalformed
	}
	entries, err := list.ReadDir(-1)
	if err != nil {
		return nil, fmt.Errorf("read: %w", err)
	}
	var all []int
	for _, e := range entries {
		if n, err := strconv.Atoi(e.Name()); err == nil {
			all = append(all, n)
		}
	}
	return all, nil
}
