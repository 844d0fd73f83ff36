package pages

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"syscall"

	"github.com/berth-project/berth/internal/value/cpuset"
)

// Process is one process during its lifetime. It is for one goroutine.
type Process struct {
	// PID is the id of the process, and Start its start time in clock ticks since boot. Together they distinguish the
	// process from a later process with the same id.
	PID   int
	Start uint64

	kernel Kernel
	tid    int // the thread that represents the process: the leader while it lives
	begun  uint64
	raw    []byte
}

// Open returns the process with an id. The error is ErrExited for a zombie, and for an id that no process has.
func Open(k Kernel, pid int) (*Process, error) {
	s, err := readStat(k, fmt.Sprintf("proc/%d/stat", pid))
	if err != nil {
		return nil, fmt.Errorf("process %d: %w", pid, err)
	}
	p := &Process{PID: pid, Start: s.start, kernel: k, tid: pid, begun: s.start}
	if s.dead {
		return p, p.succeed()
	}
	return p, nil
}

// succeed chooses a live thread to represent a process whose leader ended. The kernel finds no memory under the id of
// an ended leader.
func (p *Process) succeed() error {
	tids, err := numbers(p.kernel, fmt.Sprintf("proc/%d/task", p.PID))
	if err != nil {
		return fmt.Errorf("threads of process %d: %w", p.PID, p.classified(err))
	}
	for _, tid := range tids {
		if s, err := readStat(p.kernel, p.task(tid)); err == nil && !s.dead {
			p.tid, p.begun = tid, s.start
			return nil
		}
	}
	return fmt.Errorf("process %d is a zombie: %w", p.PID, ErrExited)
}

// Alive returns nil while the process lives, and ErrExited afterwards.
func (p *Process) Alive() error {
	s, err := readStat(p.kernel, p.task(p.tid))
	switch {
	case err == nil && s.start == p.begun && !s.dead:
		return nil
	case err != nil && !errors.Is(err, ErrExited):
		return fmt.Errorf("process %d: %w", p.PID, err)
	}
	leader, err := readStat(p.kernel, fmt.Sprintf("proc/%d/stat", p.PID))
	if err != nil || leader.start != p.Start {
		return fmt.Errorf("process %d: %w", p.PID, errors.Join(ErrExited, err))
	}
	return p.succeed()
}

// Pinned reports whether the process has memory that the kernel must not move (VmPin of its status), usually for a
// device.
func (p *Process) Pinned() (bool, error) {
	kib, err := number(p.kernel, p.file("status"), "VmPin:")
	if err != nil {
		return false, fmt.Errorf("pinned memory of process %d: %w", p.PID, p.classified(err))
	}
	return kib > 0, nil
}

// mayUse reports whether the process may use memory of a node. It is false if that is unknown.
func (p *Process) mayUse(node int) bool {
	data, err := p.kernel.ReadFile(p.file("status"))
	if err != nil {
		return false
	}
	mems, err := parseMems(string(data))
	return err == nil && mems.Contains(node)
}

// OwnMems returns the nodes whose memory this program may use.
func OwnMems(k Kernel) (cpuset.Set, error) {
	data, err := k.ReadFile("proc/self/status")
	if err != nil {
		return cpuset.Set{}, fmt.Errorf("own memory nodes: %w", err)
	}
	return parseMems(string(data))
}

// parseMems returns Mems_allowed_list of a status file, or all nodes if the line is missing.
func parseMems(status string) (cpuset.Set, error) {
	list, found := lineOf(status, "Mems_allowed_list:")
	if !found {
		list = "0-1023"
	}
	mems, err := cpuset.Parse(list)
	if err != nil {
		return cpuset.Set{}, fmt.Errorf("memory nodes %q: %w: %w", list, ErrMalformed, err)
	}
	return mems, nil
}

func (p *Process) task(tid int) string { return fmt.Sprintf("proc/%d/task/%d/stat", p.PID, tid) }

// file returns the path of a file about the memory of the process.
func (p *Process) file(name string) string { return fmt.Sprintf("proc/%d/%s", p.tid, name) }

// stat holds the required fields of a thread's stat file.
type stat struct {
	dead  bool
	start uint64
}

func readStat(k Kernel, name string) (stat, error) {
	data, err := k.ReadFile(name)
	if errors.Is(err, syscall.ESRCH) || errors.Is(err, fs.ErrNotExist) {
		err = errors.Join(ErrExited, err)
	}
	if err != nil {
		return stat{}, err
	}
	s, err := parseStat(data)
	if err != nil {
		return stat{}, fmt.Errorf("%s: %w", name, err)
	}
	return s, nil
}

// parseStat reads a stat file. The program's name, in parentheses, may contain any characters.
func parseStat(data []byte) (stat, error) {
	const state, start = 0, 19 // after the name
	end := bytes.LastIndexByte(data, ')')
	if end < 0 {
		return stat{}, fmt.Errorf("stat %q: %w", data, ErrMalformed)
	}
	fields := strings.Fields(string(data[end+1:]))
	if len(fields) <= start {
		return stat{}, fmt.Errorf("stat %q: %w", data, ErrMalformed)
	}
	ticks, err := strconv.ParseUint(fields[start], 10, 64)
	if err != nil {
		return stat{}, fmt.Errorf("start time %q: %w", fields[start], ErrMalformed)
	}
	return stat{dead: strings.Contains("ZXx", fields[state]), start: ticks}, nil
}
