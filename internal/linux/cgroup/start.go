package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"syscall"
)

// startField is the index of the start time in /proc/PID/stat among the fields after the process's name. proc(5)
// numbers the start time 22 and the name 2.
const startField = 22 - 3

// ProcessStart returns when a process was started, in clock ticks since boot (field 22 of /proc/PID/stat). The kernel
// reuses process ids, but id and start time together identify one process until the next boot. The start time does not
// change with execve. The error is ErrNoProcess if no process has that id.
func (h *Host) ProcessStart(pid int) (uint64, error) {
	name := fmt.Sprintf("proc/%d/stat", pid)
	data, err := h.root.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return 0, fmt.Errorf("%w: %d", ErrNoProcess, pid)
	}
	if err != nil {
		return 0, fmt.Errorf("start of process %d: %w", pid, err)
	}
	start, err := parseStart(string(data))
	if err != nil {
		return 0, fmt.Errorf("%s: %w", h.root.Join(name), err)
	}
	return start, nil
}

// parseStart parses one line "pid (name) state ppid …". The name may contain spaces, parentheses and newlines; the
// later fields contain none of these.
func parseStart(text string) (uint64, error) {
	i := strings.LastIndexByte(text, ')')
	if i < 0 {
		return 0, fmt.Errorf("no name in parentheses: %w", ErrMalformed)
	}
	fields := strings.Fields(strings.TrimRight(text[i+1:], "\n\x00"))
	if len(fields) <= startField {
		return 0, fmt.Errorf("%d fields behind the name, want more than %d: %w", len(fields), startField, ErrMalformed)
	}
	start, err := strconv.ParseUint(fields[startField], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("start time %q: %w", fields[startField], ErrMalformed)
	}
	return start, nil
}
