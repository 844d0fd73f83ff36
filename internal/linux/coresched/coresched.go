// Package coresched reads core scheduling cookies and gives them to threads of this process: PR_SCHED_CORE of prctl(2),
// Linux 5.14 with CONFIG_SCHED_CORE, on machines with SMT siblings.
//
// Two threads run on the siblings of one core at the same time only if they have the same cookie, or both have none. A
// cookie is inherited across exec and fork. So a cookie that all offline threads have, and no other threads, keeps them
// off every core on which an online thread runs.
//
// A process cannot name a cookie to the kernel: a thread can only give away its own cookie. So a target thread gets a
// cookie from a thread of this process that took it before (With). A cookie remains the same as long as a thread has it
// (Hold). Both threads belong to Berth, and end when they are no longer needed. Package hostwrite gives cookies to
// threads of other processes.
//
// The kernel shows a hash of the cookie's address: equal for threads with the same cookie, different from boot to boot.
package coresched

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/berth-project/berth/internal/linux/kernel"
)

// Cookie is the hash that the kernel shows of a cookie, 0 for none.
type Cookie uint64

// String returns the cookie in hexadecimal digits.
func (c Cookie) String() string { return strconv.FormatUint(uint64(c), 16) }

// Parse reads the text that String returned. The error is ErrNotACookie.
func Parse(text string) (Cookie, error) {
	n, err := strconv.ParseUint(text, 16, 64)
	if err != nil || n == 0 || Cookie(n).String() != text {
		return 0, fmt.Errorf("%q: %w", text, ErrNotACookie)
	}
	return Cookie(n), nil
}

var (
	// ErrNotACookie says that a text names no cookie.
	ErrNotACookie = errors.New("no core scheduling cookie")
	// ErrNoSource says that no thread of this process has the cookie.
	ErrNoSource = errors.New("no thread of this process has the core scheduling cookie")
	// ErrNotPermitted says that the kernel does not let this process access threads of other processes.
	ErrNotPermitted = errors.New("core scheduling of other processes needs CAP_SYS_PTRACE")
	// ErrNoSiblings says that no core has two threads: no cookie is in effect, and none can be changed.
	ErrNoSiblings = errors.New("no core has two threads")
	// ErrGone says that the thread no longer exists.
	ErrGone = errors.New("thread is gone")
)

// Of returns the cookie of a thread; tid 0 is the calling thread. The error is ErrGone, ErrNotPermitted, ErrNoSiblings,
// or another error of the kernel: EINVAL where core scheduling is not built in.
func Of(tid int) (Cookie, error) {
	var id uint64
	// A pointer passed as a number (unix.Prctl) becomes invalid if the stack grows before the system call.
	err := unix.PrctlArg5Ptr(unix.PR_SCHED_CORE, unix.PR_SCHED_CORE_GET, uintptr(tid), unix.PR_SCHED_CORE_SCOPE_THREAD, unsafe.Pointer(&id))
	if err != nil {
		return 0, fmt.Errorf("core scheduling cookie of thread %d: %w", tid, Classify(err))
	}
	return Cookie(id), nil
}

// Classify adds the meaning of a kernel error.
func Classify(err error) error {
	switch {
	case errors.Is(err, unix.ESRCH):
		return fmt.Errorf("%w: %w", ErrGone, err)
	case errors.Is(err, unix.EPERM):
		return fmt.Errorf("%w: %w", ErrNotPermitted, err)
	case errors.Is(err, unix.ENODEV):
		return fmt.Errorf("%w: %w", ErrNoSiblings, err)
	}
	return err
}

// create gives the calling thread a new cookie that no other thread has.
func create() error {
	if err := unix.Prctl(unix.PR_SCHED_CORE, unix.PR_SCHED_CORE_CREATE, 0, unix.PR_SCHED_CORE_SCOPE_THREAD, 0); err != nil {
		return fmt.Errorf("make a core scheduling cookie: %w", Classify(err))
	}
	return nil
}

// take gives the calling thread the cookie of another thread, or none if that thread has none.
func take(tid int) error {
	err := unix.Prctl(unix.PR_SCHED_CORE, unix.PR_SCHED_CORE_SHARE_FROM, uintptr(tid), unix.PR_SCHED_CORE_SCOPE_THREAD, 0)
	if err != nil {
		return fmt.Errorf("take the core scheduling cookie of thread %d: %w", tid, Classify(err))
	}
	return nil
}

// Held is a cookie that a thread of this process holds for other threads.
type Held struct {
	id          Cookie
	done, ended chan struct{}
}

// Hold creates a cookie. A thread of this process has it until Close.
func Hold() (*Held, error) {
	h := &Held{done: make(chan struct{}), ended: make(chan struct{})}
	made := make(chan error)
	go func() {
		defer close(h.ended)
		kernel.OnThread(func() {
			err := create()
			if err == nil {
				h.id, err = Of(0)
			}
			if made <- err; err == nil {
				<-h.done
			}
		})
	}()
	if err := <-made; err != nil {
		<-h.ended
		return nil, err
	}
	return h, nil
}

// ID returns the cookie.
func (h *Held) ID() Cookie { return h.id }

// Close ends the thread that Hold started, and waits for its end. Threads that took the cookie keep it.
func (h *Held) Close() {
	close(h.done)
	<-h.ended
}

// With runs f on a thread of this process that has the cookie c, 0 for none. The thread takes the cookie from another
// thread. The error is ErrNoSource, the error of f, or the kernel's.
func With(c Cookie, f func() error) error {
	own, err := ownThreads()
	if err != nil {
		return err
	}
	kernel.OnThread(func() { err = with(c, own, f) })
	return err
}

// with gives the calling thread the cookie c, and then runs f.
func with(c Cookie, sources []int, f func() error) error {
	has, err := Of(0)
	if err != nil {
		return err
	}
	for _, tid := range sources {
		if has == c {
			break
		}
		if id, err := Of(tid); err != nil || id != c {
			continue
		}
		if take(tid) == nil {
			has, err = Of(0) // another program may have changed that thread's cookie
		}
		if err != nil {
			return err
		}
	}
	if has != c {
		return fmt.Errorf("cookie %s: %w", c, ErrNoSource)
	}
	return f()
}

// ownThreads returns the threads of this process.
func ownThreads() ([]int, error) {
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return nil, fmt.Errorf("own threads: %w", err)
	}
	all := make([]int, 0, len(tasks))
	for _, task := range tasks {
		if tid, err := strconv.Atoi(task.Name()); err == nil {
			all = append(all, tid)
		}
	}
	return all, nil
}
