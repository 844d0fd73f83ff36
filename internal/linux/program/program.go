package program

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"syscall"

	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/linux/hostfs"
)

// Answer says whether processes size themselves by the quota.
type Answer string

// The three answers. Unknown means that no process is known to follow and some processes could not be read.
const (
	Follow  Answer = "follow"
	None    Answer = "none"
	Unknown Answer = "unknown"
)

// Runtime is what makes a process follow the quota.
type Runtime string

// Go changes GOMAXPROCS as the quota moves, Java the result of availableProcessors.
const (
	Go   Runtime = "go"
	Java Runtime = "java"
)

// Process is a process that follows the quota. Its JSON is a stable contract.
type Process struct {
	PID int `json:"pid"`
	// Name is what the process calls itself, without control characters.
	Name    string  `json:"name"`
	Runtime Runtime `json:"runtime"`
	// Version is the version of Go, empty for Java.
	Version string `json:"version,omitempty"`
}

// Found says what the processes of a group run. Its JSON is a stable contract.
type Found struct {
	Answer Answer `json:"answer"`
	// Processes has the processes that follow, by pid, at most mostNamed.
	Processes []Process `json:"processes,omitempty"`
	// Following counts all processes that follow, Looked all processes that were read, and Unseen all processes that
	// were not.
	Following int `json:"following"`
	Looked    int `json:"looked"`
	Unseen    int `json:"unseen"`
	// Why is the first reason why processes were not read.
	Why string `json:"why,omitempty"`
}

// Limits of one call. A group may have 10,000 processes.
const (
	mostProcesses = 256
	mostNamed     = 8
	maxMaps       = 8 << 20 // bytes of /proc/PID/maps
)

var (
	errForeign = errors.New("they have no ids here: it takes the host's pid namespace (hostPID)")
	errMany    = fmt.Errorf("at most %d are looked at", mostProcesses)
	errLate    = errors.New("their files were not read in time")
	errLarge   = errors.New("larger than what is read of it")
)

// Of returns what the processes of a group run, and of all groups below it. The answer is Unknown when ctx ends: a file
// system of the group's own may never answer. The goroutine that waits for it then ends with this program, not before.
func Of(ctx context.Context, root *hostfs.Root, host *cgroup.Host, path string) (Found, error) {
	type answer struct {
		found Found
		err   error
	}
	late := Found{Answer: Unknown, Why: errLate.Error()}
	select {
	case <-ctx.Done():
		return late, nil
	default:
	}
	said := make(chan answer, 1)
	go func() {
		found, err := look(ctx, root, host, path)
		said <- answer{found, err}
	}()
	select {
	case a := <-said:
		return a.found, a.err
	case <-ctx.Done():
		return late, nil
	}
}

func look(ctx context.Context, root *hostfs.Root, host *cgroup.Host, path string) (Found, error) {
	group, err := host.Group(path)
	if err != nil {
		return Found{}, fmt.Errorf("programs: %w", err)
	}
	defer group.Close()
	pids, foreign, err := group.Processes()
	if err != nil {
		return Found{}, fmt.Errorf("programs: %w", err)
	}
	l := looker{root: root, group: group, known: map[hostfs.ID]build{}}
	if foreign > 0 {
		l.unseen(foreign, errForeign)
	}
	for i, pid := range pids {
		switch {
		case i == mostProcesses:
			l.unseen(len(pids)-i, errMany)
			return l.answer(), nil
		case ctx.Err() != nil:
			l.unseen(len(pids)-i, errLate)
			return l.answer(), nil
		}
		l.look(pid)
	}
	return l.answer(), nil
}

// looker reads the processes of one group.
type looker struct {
	root  *hostfs.Root
	group *cgroup.Group
	found Found
	// known has the programs that were read: the workers of a server run the same program.
	known map[hostfs.ID]build
}

func (l *looker) answer() Found {
	switch f := &l.found; {
	case f.Following > 0:
		f.Answer = Follow
	case f.Unseen > 0:
		f.Answer = Unknown
	default:
		f.Answer = None
	}
	return l.found
}

func (l *looker) unseen(n int, why error) {
	l.found.Unseen += n
	if l.found.Why == "" {
		l.found.Why = why.Error()
	}
}

// look reads one process. An open directory in /proc always belongs to the same process. The kernel may have reused the
// pid before the directory was opened, so that look checks the group's processes after that.
func (l *looker) look(pid int) {
	dir, err := l.root.Dir(fmt.Sprintf("proc/%d", pid))
	if gone(err) {
		return
	}
	if err != nil {
		l.unseen(1, err)
		return
	}
	defer dir.Close()
	if pids, _, err := l.group.Processes(); err != nil || !slices.Contains(pids, pid) {
		return // it has ended, or left the group
	}
	p, follows, err := l.process(pid, dir)
	switch {
	case gone(err):
	case err != nil:
		l.unseen(1, err)
	default:
		l.found.Looked++
		if follows {
			l.found.Following++
			if len(l.found.Processes) < mostNamed {
				l.found.Processes = append(l.found.Processes, p)
			}
		}
	}
}

// gone reports whether the process no longer exists, or is ending and runs no program.
func gone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) }

// process returns what an open process runs, and whether it follows the quota.
func (l *looker) process(pid int, dir *hostfs.Dir) (p Process, follows bool, err error) {
	comm, err := dir.ReadFile("comm")
	if err != nil {
		return p, false, err
	}
	p = Process{PID: pid, Name: strings.Map(printed, strings.TrimSuffix(string(comm), "\n"))}
	java, err := mapsJava(dir)
	switch {
	case err != nil:
		return p, false, err
	case java:
		p.Runtime = Java
		return p, true, nil
	}
	file, err := dir.Follow("exe")
	if err != nil {
		return p, false, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return p, false, fmt.Errorf("program of process %d: %w", pid, err)
	}
	id := hostfs.IDOf(info)
	b, read := l.known[id]
	if !read {
		b = buildOf(file)
		l.known[id] = b
	}
	if b.err != nil {
		return p, false, fmt.Errorf("program of process %d: %w", pid, b.err)
	}
	p.Runtime, p.Version = Go, b.version
	return p, b.follows, nil
}

// mapsJava reports whether a process has the library of a Java virtual machine mapped.
func mapsJava(dir *hostfs.Dir) (bool, error) {
	maps, err := dir.Open("maps", 0)
	if err != nil {
		return false, dir.Explain("open", "maps", err)
	}
	defer maps.Close()
	limited := &io.LimitedReader{R: maps, N: maxMaps}
	lines := bufio.NewScanner(limited)
	for lines.Scan() {
		if bytes.HasSuffix(bytes.TrimSuffix(lines.Bytes(), []byte(" (deleted)")), []byte("/libjvm.so")) {
			return true, nil
		}
	}
	switch err := lines.Err(); {
	case err != nil:
		return false, dir.Explain("read", "maps", err)
	case limited.N == 0:
		return false, fmt.Errorf("%s/maps: %w", dir.Path(), errLarge)
	}
	return false, nil
}
