package coresched

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-project/berth/test/patience"
)

// built reports whether this kernel has core scheduling, and siblings for it. The kernel of this project's virtual
// machines must have it.
func built(t *testing.T) bool {
	t.Helper()
	_, err := Of(0)
	if err == nil {
		return true
	}
	if !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENODEV) {
		t.Fatalf("a kernel without core scheduling, or without siblings, answers otherwise: %v", err)
	}
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		t.Fatal(err)
	}
	if release := unix.ByteSliceToString(name.Release[:]); strings.HasSuffix(release, "-berth") {
		t.Fatalf("the kernel %s is built with it: %v", release, err)
	}
	return false
}

// has returns a function that checks the cookie of the calling thread.
func has(want Cookie) func() error {
	return func() error {
		if got, err := Of(0); err != nil || got != want {
			return errors.Join(errors.New("the thread has the cookie "+got.String()+", want "+want.String()), err)
		}
		return nil
	}
}

// TestCookies checks that threads of this process hold, take and drop a cookie, and that no other goroutine ever runs
// with it. Without core scheduling, Hold and With return errors.
func TestCookies(t *testing.T) {
	if !built(t) {
		if h, err := Hold(); err == nil {
			t.Errorf("held cookie %s without core scheduling", h.ID())
		}
		if err := With(0, func() error { return nil }); err == nil {
			t.Error("a thread without cookie is known without core scheduling")
		}
		return
	}
	one, err := Hold()
	if err != nil {
		t.Fatal(err)
	}
	two, err := Hold()
	if err != nil {
		t.Fatal(err)
	}
	if one.ID() == 0 || two.ID() == 0 || one.ID() == two.ID() {
		t.Errorf("cookies %s and %s", one.ID(), two.ID())
	}
	for _, c := range []Cookie{one.ID(), 0, two.ID(), one.ID()} {
		if err := With(c, has(c)); err != nil {
			t.Error(err)
		}
	}
	one.Close()
	two.Close()
	let(t) // a thread ends a moment after its goroutine
	if err := With(one.ID(), has(one.ID())); !errors.Is(err, ErrNoSource) {
		t.Errorf("a cookie that no thread has: %v", err)
	}
	if _, err := Of(1 << 30); !errors.Is(err, ErrGone) {
		t.Errorf("a thread that is not there: %v", err)
	}
}

// TestCookieWhileTheStackGrows reads a cookie at every depth of a new stack. At some depths, the runtime moves the
// stack between the call and the system call. The kernel must then write its answer to the moved variable.
func TestCookieWhileTheStackGrows(t *testing.T) {
	if !built(t) {
		return // TestCookies checks the errors of such a kernel. Our own kernel has core scheduling: make verify-kernels.
	}
	held, err := Hold()
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	err = With(held.ID(), func() error {
		tid := unix.Gettid()
		for depth := range 3000 {
			said := make(chan error, 1)
			go func() { said <- deep(depth, tid, held.ID()) }()
			if err := <-said; err != nil {
				return fmt.Errorf("%d calls deep: %w", depth, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// deep calls itself depth times, and then compares the cookie of a thread.
//
//go:noinline
func deep(depth, tid int, want Cookie) error {
	if depth > 0 {
		err := deep(depth-1, tid, want)
		return err
	}
	got, err := Of(tid)
	if err == nil && got != want {
		err = fmt.Errorf("thread %d has the cookie %s, want %s", tid, got, want)
	}
	return err
}

// let waits until no thread of this process has a cookie.
func let(t *testing.T) {
	t.Helper()
	err := patience.Until(context.WithoutCancel(t.Context()), 10*time.Millisecond, func() string {
		own, err := ownThreads()
		if err != nil {
			t.Fatal(err)
		}
		for _, tid := range own {
			if c, err := Of(tid); c != 0 || err != nil && !errors.Is(err, ErrGone) {
				return fmt.Sprintf("thread %d has cookie %s, %v", tid, c, err)
			}
		}
		return ""
	})
	if err != nil {
		t.Error(err)
	}
}
