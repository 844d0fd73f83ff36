package mover_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-project/berth/internal/capability/localize/locality"
	"github.com/berth-project/berth/internal/capability/localize/mover"
	"github.com/berth-project/berth/internal/linux/pages"
)

// lock locks the memory map of a process until the returned function is called.
func (f *fake) lock(p *process) (release func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	free := make(chan struct{})
	p.locked = free
	return func() {
		f.mu.Lock()
		p.locked = nil
		f.mu.Unlock()
		close(free)
	}
}

// within runs a mover that gives up on unresponsive processes. The returned function ends it.
func within(t *testing.T, f *fake) (m *mover.Mover, end func()) {
	t.Helper()
	began := time.Now()
	m = mover.New(mover.Options{
		Clock: func() time.Duration { return time.Since(began) }, Log: slog.New(slog.DiscardHandler), Kernel: pages.Within(f), Groups: f,
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	return m, func() {
		t.Helper()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// TestProcessDoesNotAnswer: the pages of a process with a locked memory map stay, and the mover makes no call for it.
// The pages of other processes move. The mover waits for a fork of four seconds.
func TestProcessDoesNotAnswer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		midway bool          // locked after its pages were found
		frees  time.Duration // when it answers; 0 for never
		moved  int64
		left   locality.Left
	}{
		"from the start": {moved: 200},
		"midway":         {midway: true, moved: 200, left: locality.LeftBusy},
		"a fork":         {frees: 4 * time.Second, moved: 300},
		"a fork, midway": {midway: true, frees: 4 * time.Second, moved: 300},
		"for too long":   {frees: 6 * time.Second, moved: 200},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newFake(2)
				f.add(1, 100, 1)
				second := f.add(2, 100, 1)
				f.add(3, 100, 1)
				release := func() {}
				lock := func() {
					release = f.lock(second)
					if c.frees > 0 {
						time.AfterFunc(c.frees, release)
					}
				}
				if c.midway {
					asked := 0 // openings of pagemap; the third precedes the call that moves
					f.opening = func(name string) {
						if name == "proc/2/pagemap" {
							if asked++; asked == 3 {
								lock()
							}
						}
					}
				} else {
					lock()
				}
				m, end := within(t, f)
				m.Order(order(t, f))
				r := finished(t, m)
				account(t, r)
				if r.Err != nil || r.Outcome != locality.Completed || r.Bytes() != c.moved*pages.Size || f.hung != 0 {
					t.Errorf("%+v, %d calls that would not end", r, f.hung)
				}
				if warned := len(r.Warnings) == 1 && strings.Contains(r.Warnings[0], "process 2 does not answer"); warned != (c.moved == 200) {
					t.Errorf("warnings %q", r.Warnings)
				}
				if c.left != "" && r.Left[c.left] == 0 {
					t.Errorf("left %v", r.Left)
				}
				end()
				if time.Sleep(c.frees); c.frees == 0 {
					release()
				}
				synctest.Wait()
			})
		})
	}
}

// TestFourDoNotAnswer: the fourth unresponsive process ends the pass within seconds, and ends the next pass at once.
func TestFourDoNotAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake(2)
		var release []func()
		for pid := 1; pid <= 100; pid++ {
			release = append(release, f.lock(f.add(pid, 10, 1)))
		}
		m, end := within(t, f)
		for pass, most := range []time.Duration{21 * time.Second, time.Second} {
			began := time.Now()
			m.Order(order(t, f))
			r := finished(t, m)
			account(t, r)
			if !errors.Is(r.Err, mover.ErrStuck) || !strings.Contains(r.Err.Error(), "process 4 does not answer") || r.Outcome != locality.Failed {
				t.Errorf("pass %d: %+v", pass, r)
			}
			if passed := time.Since(began); passed > most {
				t.Errorf("pass %d took %v", pass, passed)
			}
		}
		end()
		for _, free := range release {
			free()
		}
		synctest.Wait()
		m, end = within(t, f)
		m.Order(order(t, f))
		if r := finished(t, m); r.Err != nil || r.Bytes() != 1000*pages.Size {
			t.Errorf("once they answer: %+v", r)
		}
		end()
	})
}

// TestMoverEndsWhileAProcessIsLocked: the end of the agent waits only for the question under way.
func TestMoverEndsWhileAProcessIsLocked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake(2)
		release := f.lock(f.add(1, 10, 1))
		m, end := within(t, f)
		m.Order(order(t, f))
		synctest.Wait()
		began := time.Now()
		end()
		if passed := time.Since(began); passed > 5*time.Second || !errors.Is(m.Reports()[0].Err, mover.ErrCanceled) {
			t.Errorf("it ended after %v: %+v", passed, m.Reports()[0])
		}
		release()
		synctest.Wait()
	})
}

// TestSharedWithAProcessThatDoesNotAnswer: an unresponsive process may have mapped shared memory. The memory stays if
// that process is outside of the group, and moves if it is a member.
func TestSharedWithAProcessThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	for _, outside := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake(2)
			first, second := f.add(1, 1, 0), f.add(2, 1, 0)
			first.memfd(100, 1)
			f.share(first, second)
			other := f.add(9, 1, 0)
			other.outside = outside
			release := f.lock(other)
			m, end := within(t, f)
			m.Order(order(t, f))
			want := int64(100)
			if outside {
				want = 0
			}
			if r := finished(t, m); r.Err != nil || r.Bytes() != want*pages.Size || len(r.Warnings) != 1 {
				t.Errorf("outside %v: %+v", outside, r)
			}
			end()
			release()
			synctest.Wait()
		})
	}
}
