package pages

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// host is a kernel with processes whose memory maps may be locked.
type host struct {
	mu     sync.Mutex
	locked map[int]chan struct{} // by process; closed when the lock is released
	starts map[int]uint64
	refuse map[string]error // the error of opening a file
	empty  bool             // files are empty
	asked  []string         // files that were opened
	opens  bool             // opening waits for the lock, not only reading
	closed int
	moved  int
}

func newHost(pids ...int) *host {
	h := &host{locked: map[int]chan struct{}{}, starts: map[int]uint64{}, refuse: map[string]error{}}
	for _, pid := range pids {
		h.starts[pid] = uint64(pid) * 7
	}
	return h
}

// lock locks the map of a process until the returned function is called, or the test ends.
func (h *host) lock(t *testing.T, pid int) (release func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	free := make(chan struct{})
	h.locked[pid] = free
	release = sync.OnceFunc(func() {
		h.mu.Lock()
		if h.locked[pid] == free {
			delete(h.locked, pid)
		}
		h.mu.Unlock()
		close(free)
	})
	t.Cleanup(release)
	return release
}

// wait waits for the lock of a map.
func (h *host) wait(pid int) {
	h.mu.Lock()
	free := h.locked[pid]
	h.mu.Unlock()
	if free != nil {
		<-free
	}
}

func (h *host) ReadFile(name string) ([]byte, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var pid int
	if _, err := fmt.Sscanf(name, "proc/%d/stat", &pid); err != nil || h.starts[pid] == 0 {
		return nil, &fs.PathError{Op: "open", Path: name, Err: syscall.ENOENT}
	}
	return fmt.Appendf(nil, "%d (db) S 1 1 1 0 -1 0 1 0 0 0 0 0 0 0 20 0 1 0 %d 1", pid, h.starts[pid]), nil
}

func (h *host) Open(name string) (fs.File, error) {
	var pid int
	_, err := fmt.Sscanf(name, "proc/%d/", &pid)
	h.mu.Lock()
	h.asked = append(h.asked, name)
	refused, opens, known := h.refuse[name[strings.LastIndex(name, "/")+1:]], h.opens, h.starts[pid] != 0
	h.mu.Unlock()
	switch {
	case err != nil || !known:
		return nil, &fs.PathError{Op: "open", Path: name, Err: syscall.ENOENT}
	case refused != nil:
		return nil, &fs.PathError{Op: "open", Path: name, Err: refused}
	case opens:
		h.wait(pid)
	}
	return &opened{h: h, pid: pid}, nil
}

func (h *host) MovePages(int, []uint64, []int32, []int32, int) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.moved++
	return 0, nil
}

// count returns how many files were opened and closed.
func (h *host) count() (asked, closed int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.asked), h.closed
}

// opened is a file of a host, full of ones.
type opened struct {
	fs.File
	h   *host
	pid int
}

func (o *opened) Read(buf []byte) (int, error) {
	if o.h.wait(o.pid); o.h.empty {
		return 0, io.EOF
	}
	for i := range buf {
		buf[i] = 1
	}
	return len(buf), nil
}

func (o *opened) ReadAt(buf []byte, _ int64) (int, error) { return o.Read(buf) }

func (o *opened) Close() error {
	o.h.mu.Lock()
	defer o.h.mu.Unlock()
	o.h.closed++
	return nil
}

// TestAnswersWithin checks that a question is answered within a second, whatever the rights of the caller and the state
// of the process.
func TestAnswersWithin(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		prepare func(t *testing.T, h *host)
		want    error
		takes   time.Duration
		asked   int
	}{
		"it answers":                   {func(*testing.T, *host) {}, nil, 0, 1},
		"no right for pagemap":         {func(_ *testing.T, h *host) { h.refuse["pagemap"] = syscall.EPERM }, nil, 0, 2},
		"no right, and it is locked":   {func(t *testing.T, h *host) { h.refuse["pagemap"] = syscall.EACCES; h.lock(t, 9) }, ErrStuck, time.Second, 2},
		"a kernel without pagemap":     {func(t *testing.T, h *host) { h.refuse["pagemap"] = syscall.ENOENT; h.lock(t, 9) }, ErrStuck, time.Second, 2},
		"no memory":                    {func(_ *testing.T, h *host) { h.empty = true }, nil, 0, 1},
		"no memory, on a newer kernel": {func(_ *testing.T, h *host) { h.refuse["pagemap"] = syscall.ESRCH }, nil, 0, 1},
		"it ended":                     {func(_ *testing.T, h *host) { delete(h.starts, 9) }, ErrExited, 0, 2},
		"no file can be opened":        {func(_ *testing.T, h *host) { h.refuse["pagemap"] = syscall.EMFILE }, syscall.EMFILE, 0, 1},
		"it is locked":                 {func(t *testing.T, h *host) { h.lock(t, 9) }, ErrStuck, time.Second, 1},
		"opening waits":                {func(t *testing.T, h *host) { h.opens = true; h.lock(t, 9) }, ErrStuck, time.Second, 1},
		"it is locked for a while": {func(t *testing.T, h *host) {
			release := h.lock(t, 9)
			time.AfterFunc(900*time.Millisecond, release)
		}, nil, 900 * time.Millisecond, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				h := newHost(9)
				c.prepare(t, h)
				k, began := Within(h), time.Now()
				err := Answers(k, 9)
				if !errors.Is(err, c.want) || (err == nil) != (c.want == nil) || time.Since(began) != c.takes {
					t.Errorf("%v after %v, want %v after %v", err, time.Since(began), c.want, c.takes)
				}
				if asked, _ := h.count(); asked != c.asked {
					t.Errorf("%d files were opened, want %d", asked, c.asked)
				}
			})
		})
	}
}

// TestProcessThatDoesNotAnswer checks that only one call waits for a stuck process. Nobody asks it in the meantime, and
// once the call has returned it is asked again.
func TestProcessThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	for _, opens := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			h := newHost(9, 10)
			h.opens = opens
			k := Within(h)
			release := h.lock(t, 9)
			for range 3 {
				if err := Answers(k, 9); !errors.Is(err, ErrStuck) || !strings.Contains(err.Error(), "process 9 ") {
					t.Errorf("%v", err)
				}
				if _, err := k.Open("proc/9/task/9/numa_maps"); !errors.Is(err, ErrStuck) {
					t.Errorf("open: %v", err)
				}
				if _, err := k.ReadFile("proc/9/cmdline"); !errors.Is(err, ErrStuck) {
					t.Errorf("read: %v", err)
				}
				if _, err := k.MovePages(9, []uint64{0}, nil, []int32{0}, 0); !errors.Is(err, ErrStuck) {
					t.Errorf("move: %v", err)
				}
			}
			if asked, closed := h.count(); asked != 1 || closed != 0 || h.moved != 0 {
				t.Errorf("%d files were opened and %d closed, %d calls moved pages", asked, closed, h.moved)
			}
			if err := Answers(k, 10); err != nil {
				t.Errorf("another process: %v", err)
			}
			if _, err := k.ReadFile("proc/9/stat"); err != nil {
				t.Errorf("stat: %v", err)
			}
			release()
			synctest.Wait()
			if asked, closed := h.count(); asked != closed {
				t.Errorf("%d files were opened, %d closed", asked, closed)
			}
			if err := Answers(k, 9); err != nil {
				t.Errorf("once it answers: %v", err)
			}
			if _, err := k.MovePages(9, []uint64{0}, nil, []int32{0}, 0); err != nil || h.moved != 1 {
				t.Errorf("%d calls, %v", h.moved, err)
			}
		})
	}
}

// TestReadThatIsLeft checks that an abandoned read writes nothing to its caller's memory. The waiting goroutine closes
// its file exactly once.
func TestReadThatIsLeft(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]time.Duration{"maps": moveWithin, "pagemap": moveWithin, "numa_maps": lineWithin, "smaps": lineWithin} {
		synctest.Test(t, func(t *testing.T) {
			h := newHost(9)
			k := Within(h)
			f, err := k.Open("proc/9/" + name)
			if err != nil {
				t.Fatal(err)
			}
			release, began, buf := h.lock(t, 9), time.Now(), make([]byte, 8)
			if n, err := f.Read(buf); n != 0 || !errors.Is(err, ErrStuck) || time.Since(began) != limit {
				t.Errorf("%d, %v after %v, want %v", n, err, time.Since(began), limit)
			}
			if err := f.Close(); err != nil {
				t.Error(err)
			}
			if _, closed := h.count(); closed != 0 {
				t.Errorf("%s was closed while it is read", name)
			}
			release()
			synctest.Wait()
			if _, closed := h.count(); closed != 1 || buf[0] != 0 {
				t.Errorf("%s was closed %d times, and the caller has %v", name, closed, buf)
			}
			if n, err := f.Read(buf); n != 0 || !errors.Is(err, ErrStuck) {
				t.Errorf("a file that was given up: %d, %v", n, err)
			}
		})
	}
}

// TestReadThatIsAnswered checks that a completed read passes its data on.
func TestReadThatIsAnswered(t *testing.T) {
	t.Parallel()
	h := newHost(9)
	f, err := Within(h).Open("proc/9/pagemap")
	if err != nil {
		t.Fatal(err)
	}
	at, ok := f.(io.ReaderAt)
	if !ok {
		t.Fatalf("%T has no ReadAt", f)
	}
	buf := make([]byte, 8)
	if n, err := at.ReadAt(buf, 8); n != len(buf) || err != nil || buf[7] != 1 {
		t.Errorf("%d, %v: %v", n, err, buf)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	if asked, closed := h.count(); asked != closed {
		t.Errorf("%d files were opened, %d closed", asked, closed)
	}
}

// TestManyDoNotAnswer checks that at most 64 goroutines wait, and that no process is asked beyond that.
func TestManyDoNotAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHost()
		k := Within(h)
		var release func()
		for pid := 1; pid <= mostAbandoned; pid++ {
			h.starts[pid] = 7
			release = h.lock(t, pid)
			if err := Answers(k, pid); !errors.Is(err, ErrStuck) {
				t.Fatalf("%d: %v", pid, err)
			}
		}
		h.starts[1000] = 7
		before, _ := h.count()
		began := time.Now()
		if err := Answers(k, 1000); !errors.Is(err, ErrStuck) || !strings.Contains(err.Error(), "64 others") || time.Since(began) != 0 {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		if after, _ := h.count(); before != mostAbandoned || after != before {
			t.Errorf("%d files were opened, then %d", before, after)
		}
		release()
		synctest.Wait()
		if err := Answers(k, 1000); err != nil {
			t.Errorf("with 63: %v", err)
		}
	})
}

// TestIDOfAnother checks that a new process with the id of a stuck process is asked.
func TestIDOfAnother(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHost(9)
		k := Within(h)
		release := h.lock(t, 9)
		if err := Answers(k, 9); !errors.Is(err, ErrStuck) {
			t.Error(err)
		}
		h.mu.Lock()
		h.starts[9]++
		delete(h.locked, 9)
		h.mu.Unlock()
		if err := Answers(k, 9); err != nil {
			t.Errorf("a new process: %v", err)
		}
		h.lock(t, 9)
		if err := Answers(k, 9); !errors.Is(err, ErrStuck) {
			t.Errorf("a new process that is locked: %v", err)
		}
		release()
		synctest.Wait()
	})
}

// pieces is a file that counts its reads.
type pieces struct {
	fs.File
	text  string
	reads []int
	err   error
}

func (p *pieces) Read(buf []byte) (int, error) {
	p.reads = append(p.reads, len(buf))
	n := copy(buf, p.text)
	if p.text = p.text[n:]; n == 0 {
		return 0, p.err
	}
	return n, nil
}

func (*pieces) Close() error { return nil }

// TestLineAtOnce checks that a line is one question, in reads of the size that the caller requested. The end or error
// after the last line is returned once all bytes have been.
func TestLineAtOnce(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 3*longestLine)
	for name, text := range map[string]string{"lines": "7f00 default\n7f08 bind:0 anon=2 N0=1 N1=1\n", "a long one": long + "\n7f00 local", "none": ""} {
		for _, end := range []error{io.EOF, syscall.ESRCH} {
			file := &pieces{text: text, err: end}
			f := &answering{File: file, within: &within{Kernel: newHost(), stuck: map[int]*stuck{}}, pid: 9, limit: time.Minute, lines: true}
			var got []byte
			var err error
			for buf := make([]byte, policyRead); err == nil; {
				var n int
				n, err = f.Read(buf)
				got = append(got, buf[:n]...)
			}
			if string(got) != text || !errors.Is(err, end) {
				t.Errorf("%s: %q, %v, want %q, %v", name, got, err, text, end)
			}
			if i := slices.IndexFunc(file.reads, func(n int) bool { return n != policyRead }); i >= 0 {
				t.Errorf("%s: a read of %d bytes", name, file.reads[i])
			}
		}
	}
}
