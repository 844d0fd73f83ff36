package pages

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	// answerWithin is the time limit for opening a file about a process, and for Answers.
	answerWithin = time.Second
	// moveWithin is the time limit for the check before each call of MovePages, and for reading. A fork of a large
	// process holds the lock for seconds (dup_mmap in kernel/fork.c).
	moveWithin = 5 * time.Second
	// lineWithin is the time limit for a line of numa_maps or smaps, for which the kernel counts pages one by one.
	lineWithin = 30 * time.Second
	// mostAbandoned bounds the goroutines that wait for processes that do not answer.
	mostAbandoned = 64
)

// Within returns a kernel that limits the time of each call that may wait for a process. After the limit, the error is
// ErrStuck.
//
// A process may hold the lock of its memory map forever. For example, mmap(2) of a file on a mount that does not answer
// holds the lock while it waits (vm_mmap_pgoff in mm/util.c). All readers of the map wait for this lock. Opening a file
// also waits for an execve that does not end (proc_mem_open in fs/proc/base.c).
//
// After the limit, the goroutine that waits for the kernel is abandoned. It ends when the process answers or ends, and
// closes its file itself. Until then no caller asks the process again. Each process thus costs one goroutine for each
// caller that waited when the process was found stuck. There are at most 64 goroutines: beyond that, no process is
// asked. Their waits are killable (mmap_read_lock_killable, down_read_killable), and do not keep the program from
// exiting.
//
// move_pages(2) is not killable and has no time limit. The returned kernel therefore checks before each call that the
// process answers.
func Within(k Kernel) Kernel { return &within{Kernel: k, stuck: map[int]*stuck{}} }

// within implements Kernel. It is safe for concurrent use if the kernel below it is.
type within struct {
	Kernel

	mu      sync.Mutex
	running int            // goroutines, including abandoned ones
	stuck   map[int]*stuck // processes that did not answer, by id
}

// stuck is a process that abandoned calls wait for.
type stuck struct {
	start uint64 // 0 if it could not be read
	calls int
}

// Open implements Kernel.
func (w *within) Open(name string) (fs.File, error) {
	pid, last, waits := waitsFor(name)
	if !waits {
		return w.Kernel.Open(name)
	}
	var f fs.File
	var failed error
	_, err := w.ask(pid, name, answerWithin, func() { f, failed = w.Kernel.Open(name) }, func() {
		if failed == nil {
			_ = f.Close() // nobody read it
		}
	})
	if err == nil {
		err = failed
	}
	if err != nil {
		return nil, err
	}
	limit := moveWithin
	if last == "numa_maps" || last == "smaps" {
		limit = lineWithin
	}
	return &answering{File: f, within: w, pid: pid, name: name, limit: limit, lines: limit == lineWithin}, nil
}

// ReadFile implements Kernel.
func (w *within) ReadFile(name string) ([]byte, error) {
	pid, _, waits := waitsFor(name)
	if !waits {
		return w.Kernel.ReadFile(name)
	}
	var data []byte
	var failed error
	if _, err := w.ask(pid, name, moveWithin, func() { data, failed = w.Kernel.ReadFile(name) }, nil); err != nil {
		return nil, err
	}
	return data, failed
}

// MovePages implements Kernel. The call itself cannot be abandoned: it waits for the lock, and not even a signal ends
// the wait (do_pages_move, do_pages_stat_array in mm/migrate.c).
func (w *within) MovePages(pid int, addresses []uint64, nodes, status []int32, flags int) (int, error) {
	if pid != 0 && len(addresses) > 0 {
		if err := w.answers(pid, moveWithin); errors.Is(err, ErrStuck) {
			return 0, err
		}
	}
	return w.Kernel.MovePages(pid, addresses, nodes, status, flags)
}

// waitsFor reports whether the kernel needs the lock of the memory map to read a file about a process or thread. It
// needs no lock for files such as stat, status and the list of threads (fs/proc/array.c).
func waitsFor(name string) (pid int, last string, waits bool) {
	parts := strings.Split(strings.TrimPrefix(name, "/"), "/")
	if len(parts) < 3 || parts[0] != "proc" {
		return 0, "", false
	}
	last = parts[len(parts)-1]
	switch last {
	case "maps", "smaps", "numa_maps", "pagemap", "cmdline", "mem":
		pid, err := strconv.Atoi(parts[1])
		return pid, last, err == nil
	}
	return 0, "", false
}

// ask runs a question on a goroutine, and returns when the question was answered. After the limit, the error is
// ErrStuck and the question is abandoned. Its goroutine then owns the variables that the question writes, and calls
// late, if not nil, after the answer.
func (w *within) ask(pid int, name string, limit time.Duration, question, late func()) (left bool, err error) {
	if err := w.begin(pid, name); err != nil {
		return false, err
	}
	done, abandoned := make(chan struct{}), (*stuck)(nil)
	go func() {
		question()
		w.mu.Lock()
		of := abandoned
		w.returned(pid, of)
		close(done)
		w.mu.Unlock()
		if of != nil && late != nil {
			late()
		}
	}()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-done:
		return false, nil
	case <-timer.C:
	}
	s, _ := readStat(w.Kernel, statOf(pid)) // The start is 0 if the process ended.
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-done:
		return false, nil
	default:
	}
	if abandoned = w.stuck[pid]; abandoned == nil || abandoned.start != s.start {
		abandoned = &stuck{start: s.start}
		w.stuck[pid] = abandoned
	}
	abandoned.calls++
	return true, stuckAt(pid, name)
}

// begin counts a goroutine. It fails if the process is known to be stuck, or if too many goroutines are running.
func (w *within) begin(pid int, name string) error {
	w.mu.Lock()
	before := w.stuck[pid]
	w.mu.Unlock()
	if before != nil { // The id may belong to another process by now.
		if now, err := readStat(w.Kernel, statOf(pid)); err == nil && now.start == before.start {
			return stuckAt(pid, name)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.running >= mostAbandoned {
		return fmt.Errorf("%w, or it may: it was not asked, since %d others do not", stuckAt(pid, name), mostAbandoned)
	}
	w.running++
	return nil
}

// returned records the end of a call. A process is no longer stuck once its last abandoned call has ended.
func (w *within) returned(pid int, of *stuck) {
	w.running--
	if of == nil {
		return
	}
	if of.calls--; of.calls == 0 && w.stuck[pid] == of {
		delete(w.stuck, pid)
	}
}

func statOf(pid int) string { return fmt.Sprintf("proc/%d/stat", pid) }

func stuckAt(pid int, name string) error { return fmt.Errorf("%s: process %d %w", name, pid, ErrStuck) }

// answering is a file with a time limit for each read.
type answering struct {
	fs.File

	within *within
	pid    int
	name   string
	limit  time.Duration
	lines  bool // the file is read in pieces shorter than a line
	left   bool // to an abandoned goroutine, which closes the file
	ahead  []byte
	failed error // error of the read after ahead
}

// Read implements fs.File. In a file of lines, one question reads a whole line, in pieces of the caller's size.
func (f *answering) Read(buf []byte) (int, error) {
	if !f.lines || len(buf) == 0 {
		return f.read(buf, f.File.Read)
	}
	if len(f.ahead) == 0 && f.failed == nil {
		line := make([]byte, longestLine/len(buf)*len(buf)+len(buf))
		n, err := f.read(line, func(own []byte) (int, error) { return readLine(f.File, own, len(buf)) })
		if f.left {
			return 0, err
		}
		f.ahead, f.failed = line[:n], err
	}
	if n := copy(buf, f.ahead); n > 0 {
		f.ahead = f.ahead[n:]
		return n, nil
	}
	err := f.failed
	f.failed = nil
	return 0, err
}

// longestLine is about how many bytes one question reads. The next question reads the remainder of a longer line.
const longestLine = 1 << 10

// readLine reads pieces until one contains the end of a line.
func readLine(from io.Reader, own []byte, piece int) (n int, err error) {
	for err == nil && n+piece <= len(own) && !bytes.ContainsRune(own[:n], '\n') {
		var more int
		more, err = from.Read(own[n : n+piece])
		n += more
	}
	return n, err //nolint:wrapcheck // as fs.File says
}

// ReadAt implements io.ReaderAt.
func (f *answering) ReadAt(buf []byte, off int64) (int, error) {
	at, ok := f.File.(io.ReaderAt)
	if !ok {
		return 0, fmt.Errorf("read at an offset: %w", errors.ErrUnsupported)
	}
	return f.read(buf, func(own []byte) (int, error) { return at.ReadAt(own, off) })
}

// read reads into its own memory, because an abandoned call may write there at any time.
func (f *answering) read(buf []byte, from func([]byte) (int, error)) (n int, err error) {
	if f.left {
		return 0, stuckAt(f.pid, f.name)
	}
	own := make([]byte, len(buf))
	var got int
	var failed error
	f.left, err = f.within.ask(f.pid, f.name, f.limit, func() { got, failed = from(own) }, func() { _ = f.File.Close() })
	if err != nil {
		return 0, err
	}
	return copy(buf, own[:got]), failed
}

// Close releases the file, unless an abandoned goroutine reads it, which then closes it.
func (f *answering) Close() error {
	if f.left {
		return nil
	}
	return f.File.Close() //nolint:wrapcheck // as fs.File says
}

// Answers returns nil if the memory map of a process can be read now, within a second. It returns ErrStuck if the map
// is locked, and ErrExited if the process ended. A process without memory, such as a kernel thread, answers. Answers
// does not detect a lock that admits readers and that no writer waits for.
func Answers(k Kernel, pid int) error {
	w, ok := k.(*within)
	if !ok {
		return probe(k, pid)
	}
	return w.answers(pid, answerWithin)
}

// AllAnswer returns the first error of Answers. It ignores processes that ended, and processes that this program may
// not ask.
func AllAnswer(k Kernel, pids []int) error {
	for _, pid := range pids {
		if err := Answers(k, pid); err != nil && !errors.Is(err, ErrExited) && !errors.Is(err, fs.ErrPermission) {
			return err
		}
	}
	return nil
}

func (w *within) answers(pid int, limit time.Duration) error {
	var failed error
	name := fmt.Sprintf("proc/%d/pagemap", pid)
	if _, err := w.ask(pid, name, limit, func() { failed = probe(w.Kernel, pid) }, nil); err != nil {
		return err
	}
	return failed
}

// probe makes the kernel read a file that needs the lock of a memory map. It may wait.
func probe(k Kernel, pid int) error {
	n, err := glance(k, fmt.Sprintf("proc/%d/pagemap", pid), entrySize)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) {
		n, err = glance(k, fmt.Sprintf("proc/%d/cmdline", pid), 1) // which needs no right
	}
	if err == nil && n > 0 {
		return nil
	}
	p, gone := Open(k, pid)
	switch {
	case gone != nil:
		return gone
	case p.tid != pid: // The leader ended, and has no memory.
		return probe(k, p.tid)
	}
	if errors.Is(err, syscall.ESRCH) { // newer kernels, if the process has no memory
		return nil
	}
	return err
}

// glance reads the first bytes of a file.
func glance(k Kernel, name string, size int) (int, error) {
	f, err := k.Open(name)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	n, err := io.ReadFull(f, make([]byte, size))
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return n, nil
	}
	if err != nil {
		return n, fmt.Errorf("%s: %w", name, err)
	}
	return n, nil
}
