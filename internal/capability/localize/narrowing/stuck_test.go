package narrowing

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-project/berth/internal/linux/pages"
)

// locked is a machine on which the memory map of a process is locked.
type locked struct {
	*machine

	pid    int
	free   chan struct{}
	refuse map[string]error // the errors of opening these files

	mu     sync.Mutex
	opened []string
}

func (l *locked) Open(name string) (fs.File, error) {
	l.mu.Lock()
	l.opened = append(l.opened, name)
	l.mu.Unlock()
	if strings.HasPrefix(name, fmt.Sprintf("proc/%d/", l.pid)) && !strings.HasSuffix(name, "/mountinfo") {
		<-l.free
	}
	if err := l.refuse[name]; err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return l.machine.Open(name)
}

// TestLookAtAProcessThatDoesNotAnswer checks a group with a process whose memory map is locked. The group keeps its
// memory nodes and gets no others, even if the check cannot read the other processes, because the write would wait
// forever for the lock.
func TestLookAtAProcessThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(l *locked){
		"the first one":  func(l *locked) { l.pid = 8 },
		"the second one": func(*locked) {},
		"behind one that may not be read": func(l *locked) {
			l.refuse = map[string]error{"proc/8/maps": fs.ErrPermission, "proc/8/pagemap": fs.ErrPermission, "proc/8/cmdline": fs.ErrPermission}
		},
		"where some have no id here": func(l *locked) { l.machine.refuse = fs.ErrPermission },
		"where new ones come":        func(l *locked) { l.listing = func() { l.add(100+l.looked, "default") } },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := &locked{machine: newMachine(), pid: 9, free: make(chan struct{})}
				l.add(8, "default")
				l.add(9, "default")
				change(l)
				may := New(Options{Kernel: pages.Within(l), Groups: l, Threads: l.threads, Clock: func() time.Duration { return 0 }}).Within(t.Context())
				began := time.Now()
				l.nodes = node(0)
				if err := may("g", node(0, 1)); !errors.Is(err, pages.ErrStuck) {
					t.Errorf("widened: %v", err)
				}
				l.nodes = node(0, 1)
				if err := may("g", node(0)); err == nil || !errors.Is(err, pages.ErrStuck) && !errors.Is(err, fs.ErrPermission) {
					t.Errorf("narrowed: %v", err)
				}
				if passed := time.Since(began); passed > time.Second {
					t.Errorf("two looks took %v", passed)
				}
				close(l.free)
				synctest.Wait()
				l.listing, l.nodes = nil, node(0)
				if err := may("g", node(0, 1)); err != nil {
					t.Errorf("once it answers: %v", err)
				}
			})
		})
	}
}

// TestRunEndsWhileAProcessIsLocked checks that the end of the agent does not wait for the locked process.
func TestRunEndsWhileAProcessIsLocked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &locked{machine: newMachine(), pid: 9, free: make(chan struct{})}
		l.add(9, "default")
		looks := New(Options{Kernel: pages.Within(l), Groups: l, Threads: l.threads, Clock: func() time.Duration { return 0 }})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- looks.Run(ctx) }()
		_ = looks.May("g", node(0))
		synctest.Wait()
		began := time.Now()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if passed := time.Since(began); passed > time.Second {
			t.Errorf("it ended after %v", passed)
		}
		close(l.free)
	})
}
