package mover_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/berth-project/berth/internal/capability/localize/locality"
	"github.com/berth-project/berth/internal/capability/localize/mover"
	"github.com/berth-project/berth/internal/linux/pages"
	"github.com/berth-project/berth/internal/value/cpuset"
	_ "github.com/berth-project/berth/test/chance" // fixes the cases of the properties
)

// bubble runs a test in a synctest bubble, which has its own clock.
func bubble(t *testing.T, run func(t *testing.T, f *fake, o mover.Order)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake(2)
		run(t, f, order(t, f))
	})
}

func TestProcessExitsMidway(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake, o mover.Order) {
		f.add(1, 3000, 1)
		f.add(2, 3000, 1)
		o.Rate = 16 << 20
		f.before = func(n int) {
			if n == 1 {
				f.mu.Lock()
				delete(f.processes, 1)
				f.mu.Unlock()
			}
		}
		r := run(t, f, o)
		if r.Outcome != locality.Completed || len(r.Exited) != 1 || r.Exited[0].PID != 1 || !errors.Is(r.Exited[0].Err, pages.ErrExited) {
			t.Errorf("%+v", r)
		}
		if gone := r.Left[locality.LeftGone]; gone < 1900 || r.Bytes() != (6000-gone)*pages.Size {
			t.Errorf("gone %d, moved %d pages", r.Left[locality.LeftGone], r.Bytes()/pages.Size)
		}
	})
}

// TestIDIsReused: another process takes over a process ID between two calls. The mover must move none of its pages with
// a list that it made for the first process.
func TestIDIsReused(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake, o mover.Order) {
		f.add(1, 3000, 1)
		o.Rate = 16 << 20
		var calls int
		f.before = func(n int) {
			if n != 1 {
				return
			}
			f.mu.Lock()
			defer f.mu.Unlock()
			f.add(1, 3000, 1).start = 99
			calls = n
		}
		r := run(t, f, o)
		// The one call under way cannot know; in the next round the process counts as new.
		if calls != 1 || len(r.Exited) != 1 || f.on(1)[1] != 0 || r.Outcome != locality.Completed {
			t.Errorf("%v: %+v", f.on(1), r)
		}
	})
}

func TestForkStorm(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake, o mover.Order) {
		f.add(1, 10, 1)
		f.before = func(n int) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.add(n+2, 10, 1)
		}
		r := run(t, f, o)
		if r.Outcome != locality.Completed || len(r.Warnings) != 1 || r.Bytes() < 30*10*pages.Size {
			t.Errorf("%+v", r)
		}
	})
}

func TestManyProcessesAndMappings(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake, o mover.Order) {
		for pid := range 2000 {
			f.add(pid+1, 1, pid%2)
		}
		p := f.add(9999, 0, 0)
		p.mappings = nil
		for i := range 10_000 {
			p.mappings = append(p.mappings, anonymous(0x500000000000+uint64(i)<<20, 1, 1))
		}
		r := run(t, f, o)
		if r.Bytes() != 11_000*pages.Size || r.Outcome != locality.Completed {
			t.Errorf("%+v", r)
		}
	})
}

// TestWaitsForReclaim: the target's free memory ends at the watermarks. The pass waits five seconds for the kernel to
// reclaim memory. It continues if that succeeds in time, and fails otherwise.
func TestWaitsForReclaim(t *testing.T) {
	for name, after := range map[string]time.Duration{"in time": 3 * time.Second, "too late": time.Minute} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fake, o mover.Order) {
				f.add(1, 5000, 1)
				f.nodes[0].free, f.nodes[0].inactive = 1500, 1<<20
				time.AfterFunc(after, func() {
					f.mu.Lock()
					f.nodes[0].free = 1 << 20
					f.mu.Unlock()
				})
				r := run(t, f, o)
				took := (r.Ended - r.Started).Round(time.Second)
				if late := after > 5*time.Second; errors.Is(r.Err, mover.ErrNoRoom) != late || took != min(after, 5*time.Second) {
					t.Errorf("after %s: %+v", took, r)
				}
			})
		})
	}
}

// TestReclaimsNothingThatCouldBeSwapped: on a host with swap, a pass never makes the kernel reclaim, however much cache
// there is, and does not wait.
func TestReclaimsNothingThatCouldBeSwapped(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake, o mover.Order) {
		f.add(1, 5000, 1)
		f.nodes[0].free, f.nodes[0].inactive, f.swapFree = 5000, 1<<20, 4
		high := f.nodes[0].high
		r := run(t, f, o)
		if !errors.Is(r.Err, mover.ErrNoRoom) || f.nodes[0].free < high || r.Ended-r.Started > time.Second {
			t.Errorf("%d pages are free, high %d: %+v", f.nodes[0].free, high, r)
		}
	})
}

func TestPauses(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake, o mover.Order) {
		f.add(1, 50_000, 1)
		o.Rate = 16 << 20
		f.before = func(n int) {
			f.mu.Lock()
			defer f.mu.Unlock()
			if n == 10 {
				f.stalled += time.Second
			}
			if n == 20 {
				f.swapOut++
			}
		}
		m := start(t, f)
		m.Order(o)
		var reasons []string
		for {
			r := m.Reports()[0]
			if r.Phase == mover.Paused && (len(reasons) == 0 || reasons[len(reasons)-1] != r.Reason) {
				reasons = append(reasons, r.Reason)
			}
			if r.Phase == mover.Done {
				if r.Pauses != 2 || fmt.Sprint(reasons) != "[memory pressure the host swaps out]" || r.Ended-r.Started < 35*time.Second {
					t.Errorf("%v: %+v", reasons, r)
				}
				break
			}
			time.Sleep(50 * time.Millisecond)
		}
	})
}

func TestRate(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake, o mover.Order) {
		const limit = 64 << 20
		p := f.add(1, 100_000, 1)
		p.mappings = append(p.mappings, huge(0x7f8000000000, 125, 1, false))
		f.cost, o.Rate = time.Microsecond, limit
		r := run(t, f, o)
		if r.Rate < 0.95*limit || r.Rate > 1.05*limit {
			t.Errorf("%.3f of the limit: %+v", r.Rate/limit, r)
		}
		for i, c := range f.calls {
			if c.stray > 0 {
				t.Errorf("call %d: %d of %d pages were not on another node", i, c.stray, c.n)
			}
		}
	})
}

// TestCancel: a canceled pass ends within one call, in any kind of wait.
func TestCancel(t *testing.T) {
	for name, cancel := range map[string]func(*mover.Mover, context.CancelFunc){
		"the order": func(m *mover.Mover, _ context.CancelFunc) { m.Cancel("a"); m.Cancel("a") },
		"the mover": func(_ *mover.Mover, end context.CancelFunc) { end() },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fake, o mover.Order) {
				f.add(1, 50_000, 1)
				o.Rate, f.cost = 16<<20, time.Microsecond
				began := time.Now()
				m := mover.New(mover.Options{Clock: func() time.Duration { return time.Since(began) }, Log: slog.New(slog.DiscardHandler), Kernel: f, Groups: f})
				ctx, end := context.WithCancel(t.Context())
				defer end()
				done := make(chan error, 1)
				go func() { done <- m.Run(ctx) }()
				m.Order(o)
				m.Order(o) // The same key: no second pass.
				queued := o
				queued.Key = "b"
				m.Order(queued)
				time.Sleep(time.Second)
				m.Cancel("b")
				cancel(m, end)
				calls := len(f.calls)
				time.Sleep(100 * time.Millisecond)
				for _, r := range m.Reports() {
					account(t, r)
					if r.Phase != mover.Done || !errors.Is(r.Err, mover.ErrCanceled) || r.Outcome != locality.Failed {
						t.Errorf("%+v", r)
					}
				}
				if len(m.Reports()) != 2 || len(f.calls) > calls+1 {
					t.Errorf("%d calls after %d", len(f.calls), calls)
				}
				m.Forget("a")
				if all := m.Reports(); len(all) != 1 || all[0].Key != "b" {
					t.Errorf("%+v", all)
				}
				end()
				if err := <-done; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestCancelWhileWalking: a pass can be canceled while it walks a terabyte without a page to move.
func TestCancelWhileWalking(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake, o mover.Order) {
		p := f.add(1, 10, 1)
		p.mappings[0].end += 1 << 40
		m := start(t, f)
		f.opening = func(string) {
			if f.opened == 10 {
				m.Cancel("a")
			}
		}
		m.Order(o)
		if r := finished(t, m); !errors.Is(r.Err, mover.ErrCanceled) || f.opened > 12 {
			t.Errorf("%d files were opened: %+v", f.opened, r)
		}
	})
}

// TestTurns: two orders share the host in turns, and neither waits for the end of the other.
func TestTurns(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake, o mover.Order) {
		for pid := 1; pid <= 4; pid++ {
			f.add(pid, 100_000, 1)
		}
		f.cost = time.Microsecond
		m := start(t, f)
		m.Order(o)
		o.Key = "b"
		m.Order(o)
		finished(t, m)
		for m.Reports()[1].Phase != mover.Done {
			time.Sleep(time.Second)
		}
		if a, b := m.Reports()[0], m.Reports()[1]; a.Bytes() == 0 || b.Bytes() == 0 || a.Bytes()+b.Bytes() != 400_000*pages.Size {
			t.Errorf("%+v\n%+v", a, b)
		}
	})
}

// world returns a random host with nodes, processes with pages of all kinds, and faults.
func world(t *rapid.T) *fake {
	f := newFake(rapid.IntRange(2, 4).Draw(t, "nodes"))
	for _, n := range f.nodes {
		n.free = rapid.Int64Range(0, 200_000).Draw(t, "free")
		n.total, n.inactive = 300_000, rapid.Int64Range(0, 100_000).Draw(t, "cache")
		n.blocks = min(n.free/512, rapid.Int64Range(0, 20).Draw(t, "blocks"))
		n.pool = rapid.Int64Range(0, 4).Draw(t, "pool")
	}
	on := func(name string) int { return rapid.IntRange(0, len(f.nodes)-1).Draw(t, name) }
	for pid := range rapid.IntRange(0, 4).Draw(t, "processes") {
		p := f.add(pid+1, 0, 0)
		p.mappings = nil
		for i := range rapid.IntRange(0, 4).Draw(t, "mappings") {
			start := 0x100000000000 + uint64(i)<<32
			var m *mapping
			switch kind := rapid.IntRange(0, 3).Draw(t, "kind"); kind {
			case 0, 1:
				m = anonymous(start, rapid.IntRange(1, 1500).Draw(t, "pages"), on("node"))
			default:
				m = huge(start, rapid.IntRange(1, 3).Draw(t, "huge"), on("node"), kind == 2)
			}
			if rapid.IntRange(0, 4).Draw(t, "policy") == 0 {
				m.policy = "bind:1"
			}
			spoil(t, m, on)
			p.mappings = append(p.mappings, m)
		}
	}
	return f
}

// spoil makes some pages of a mapping immovable or puts them on another node.
func spoil(t *rapid.T, m *mapping, on func(string) int) {
	for range rapid.IntRange(0, 20).Draw(t, "spoilt") {
		at := m.start + uint64(rapid.IntRange(0, int((m.end-m.start)/pages.Size)-1).Draw(t, "at"))*pages.Size
		g := m.folios[at]
		if g == nil {
			continue
		}
		switch rapid.IntRange(0, 6).Draw(t, "how") {
		case 0:
			g.shared = true
		case 1:
			g.held = true
		case 2:
			g.stuck = true
		case 3:
			g.node = on("elsewhere")
		case 4:
			if g.pages == 1 {
				delete(m.folios, at)
			}
		case 5:
			if g.pages == 1 {
				delete(m.folios, at)
				m.swapped[at] = true
			}
		case 6:
			g.zero = g.pages == 1
		}
	}
}

// remote counts the base pages of all processes in swap or on nodes that are not local. movable counts the pages of
// these that could move if there were room.
func (f *fake) remote(local cpuset.Set) (all, movable int64) {
	for _, p := range f.processes {
		for _, m := range p.mappings {
			all += int64(len(m.swapped))
			for _, g := range m.folios {
				if g.zero || local.Contains(g.node) {
					continue
				}
				all++
				if !g.shared && !g.held && !g.stuck && m.policy == "default" {
					movable++
				}
			}
		}
	}
	return all, movable
}

// On any host, the found pages are all remote pages, and each is moved or left for a reason. A pass that succeeds
// reports every movable page that it leaves. No page leaves a local node, no huge page is split, and no call goes below
// the watermarks.
func TestAccounts(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		f := world(rt)
		o := order(rt, f)
		o.Local = cpuset.OfWords([16]uint64{rapid.Uint64Range(1, 1<<len(f.nodes)-2).Draw(rt, "local")})
		o.Rate = rapid.SampledFrom([]int64{0, 64 << 20}).Draw(rt, "rate")
		all, _ := f.remote(o.Local)
		localBefore := f.sum(o.Local)
		var r mover.Report
		synctest.Test(t, func(t *testing.T) { r = run(t, f, o) })
		_, left := f.remote(o.Local)
		switch {
		case r.Err != nil && !errors.Is(r.Err, mover.ErrNoRoom):
			rt.Fatalf("%+v", r)
		case r.Err == nil && r.Found != all:
			rt.Fatalf("found %d of %d remote pages: %+v", r.Found, all, r)
		case r.Err == nil && left > r.Left[locality.LeftNoHugeBlock]+r.Left[locality.LeftNoRoom]+r.Left[locality.LeftBusy]:
			rt.Fatalf("%d movable pages stayed: %+v", left, r)
		case f.splits > 0:
			rt.Fatalf("%d huge pages split: %+v", f.splits, r)
		case f.sum(o.Local) != localBefore+r.Bytes()/pages.Size:
			rt.Fatalf("%d local pages, then %d, moved %d", localBefore, f.sum(o.Local), r.Bytes()/pages.Size)
		}
		for id, n := range f.nodes {
			if o.Local.Contains(id) && r.Bytes() > 0 && n.lowest > 0 && n.lowest < (n.minimum+n.low)/2 {
				rt.Fatalf("node %d went down to %d pages", id, n.lowest)
			}
		}
	})
}

// sum counts the base pages on the given nodes.
func (f *fake) sum(on cpuset.Set) int64 {
	var all int64
	for _, p := range f.processes {
		for _, m := range p.mappings {
			for _, g := range m.folios {
				if on.Contains(g.node) && !g.zero {
					all++
				}
			}
		}
	}
	return all
}

func TestNoGoroutineIsLeft(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	m := mover.New(mover.Options{Clock: func() time.Duration { return 0 }, Log: slog.New(slog.DiscardHandler), Kernel: newFake(2), Groups: newFake(2)})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := m.Run(ctx); err != nil {
		t.Error(err)
	}
}

// TestPagesThatStay: pages that the kernel never moves cost a bounded number of calls.
func TestPagesThatStay(t *testing.T) {
	const all = 65_536
	for name, tt := range map[string]struct {
		change func(p *process)
		calls  int
		why    locality.Left
	}{
		"all held":   {func(p *process) { hold(p, 1) }, 45, locality.LeftBusy},
		"all pinned": {func(p *process) { p.vmPin = 4; hold(p, 1) }, 1, locality.LeftPinned},
		"pinned blocks of huge pages": {func(p *process) {
			p.vmPin, p.mappings = 4, []*mapping{huge(0x7f8000000000, 128, 1, false)}
			hold(p, 1)
		}, 1, locality.LeftPinned},
		"128 stuck": {func(p *process) {
			for i := range 128 {
				p.at(p.mappings[0].start + uint64(i)*511*pages.Size).stuck = true
			}
		}, 45, locality.LeftBusy},
		"blocks of huge pages": {func(p *process) {
			p.mappings = []*mapping{huge(0x7f8000000000, 128, 1, false)}
			hold(p, 1)
		}, 15, locality.LeftBusy},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fake, o mover.Order) {
				tt.change(f.add(1, all, 1))
				o.Rate = 256 << 20
				r := run(t, f, o)
				if took := r.Ended - r.Started; r.Calls > tt.calls || took > 4*time.Second || r.Left[tt.why] != all-r.Bytes()/pages.Size {
					t.Errorf("%d calls in %s: %+v", r.Calls, took, r)
				}
			})
		})
	}
}

// TestPinnedGuest: a guest has memory that a device pins, beside other memory. Each pinned mapping costs one call,
// regardless of its size, and the other memory moves.
func TestPinnedGuest(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake, o mover.Order) {
		p := f.add(1, 0, 1)
		p.vmPin, p.mappings = 4, nil
		for i := range 3 {
			p.mappings = append(p.mappings, anonymous(0x500000000000+uint64(i)<<40, 1<<17, 1))
		}
		hold(p, 1)
		own := anonymous(0x7f0000000000, 1<<14, 1)
		p.mappings = append(p.mappings, own)
		o.Rate = 256 << 20
		r := run(t, f, o)
		const most = 3 + 1<<14/mostOfACall + 2 // the calls for the last mapping, and calls with pages of two mappings
		if r.Bytes() != 1<<14*pages.Size || r.Left[locality.LeftPinned] != 3<<17 || r.Calls > most {
			t.Errorf("%d calls, at most %d: %+v", r.Calls, most, r)
		}
	})
}

// mostOfACall is the number of pages in a call at the rate of the shipped configuration.
const mostOfACall = 256 << 20 / pages.Size / 12

// hold makes every page whose number is a multiple of each immovable.
func hold(p *process, each int) {
	for _, m := range p.mappings {
		for a, g := range m.folios {
			g.held = int(a/pages.Size)%each == 0
		}
	}
}

// TestPoolOfAFullNode: pages of a pool can move to a node whose memory is nearly all in its pool.
func TestPoolOfAFullNode(t *testing.T) {
	for _, dry := range []bool{false, true} {
		t.Run(fmt.Sprint(dry), func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fake, o mover.Order) {
				f.nodes[0].free, f.nodes[0].pool = 100<<20/pages.Size, 60
				f.add(1, 0, 1).mappings = []*mapping{huge(0x7fa000000000, 100, 1, true)}
				f.add(2, 0, 1).mappings = []*mapping{huge(0x7fa000000000, 1, 1, true)}
				o.DryRun = dry
				r := run(t, f, o)
				if r.Outcome != locality.Completed || r.Bytes() != 60*pages.HugeSize || r.Left[locality.LeftNoHugeBlock] != 41*512 {
					t.Errorf("%+v", r)
				}
			})
		})
	}
}

// TestPoolThatIsShared: processes that map the same GiB of a pool share its page tables, so the kernel counts one
// mapping for all of them.
func TestPoolThatIsShared(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake, o mover.Order) {
		f.nodes[0].pool = 1000
		large, small := huge(0x7fa000000000, 512, 1, true), huge(0x7fb000000000, 4, 1, true)
		large.rights, small.rights = "rw-s", "rw-s"
		f.add(1, 0, 1).mappings = []*mapping{large, small}
		if r := run(t, f, o); r.Left[locality.LeftShared] != 512*512 || r.Bytes() != 4*pages.HugeSize {
			t.Errorf("%+v", r)
		}
	})
}

// TestOwnMems: the kernel charges the memory nodes of this program, so a pass fails if the program may not use the
// target.
func TestOwnMems(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake, o mover.Order) {
		f.add(1, 10, 1)
		f.ownMems = "1-3"
		if r := run(t, f, o); !errors.Is(r.Err, mover.ErrOwnMems) || r.Calls > 0 {
			t.Errorf("%+v", r)
		}
	})
}

func TestNoMemoryInSpiteOfRoom(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake, o mover.Order) {
		f.add(1, 60_000, 1)
		f.starved = true
		if r := run(t, f, o); !errors.Is(r.Err, mover.ErrNoRoom) || r.Calls > 3 {
			t.Errorf("%+v", r)
		}
	})
}

// TestTargets: no page may move to a local node that is not a target, and the pages already there stay.
func TestTargets(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake(3)
		for node := range 3 {
			f.add(node+1, 100, node)
		}
		o := order(t, f)
		o.Local, o.Targets = local(t, "0-1"), local(t, "1")
		r := run(t, f, o)
		if r.Found != 100 || f.on(1)[0] != 100 || f.on(3)[1] != 100 {
			t.Errorf("%+v", r)
		}
	})
}

// TestFileFails: if a read fails, the report omits what the pass found before.
func TestFileFails(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake, o mover.Order) {
		p := f.add(1, 10, 1)
		p.mappings[0].end += 2 * pages.Stretch
		looks := 0
		f.opening = func(name string) {
			if strings.HasSuffix(name, "pagemap") {
				looks++
			}
			if looks == 2 {
				f.refuse = syscall.EIO
			}
		}
		if r := run(t, f, o); !errors.Is(r.Err, syscall.EIO) {
			t.Errorf("%+v", r)
		}
	})
}

// TestNodeGoesOffline: the target's memory disappears between two calls, before or after the mover reads the node
// again. The pass fails and reports the reason.
func TestNodeGoesOffline(t *testing.T) {
	for _, seen := range []bool{true, false} {
		t.Run(fmt.Sprint(seen), func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fake, o mover.Order) {
				f.add(1, 3000, 1)
				o.Rate = 16 << 20
				offline := func() {
					f.mu.Lock()
					defer f.mu.Unlock()
					f.nodes[0].total, f.nodes[0].free = 0, 0
				}
				f.before = func(n int) {
					if n == 1 && !seen {
						offline()
					}
				}
				if seen {
					time.AfterFunc(10*time.Millisecond, offline)
				}
				r := run(t, f, o)
				if !errors.Is(r.Err, pages.ErrNode) || r.Outcome != locality.Failed || r.Bytes() == 0 || r.Bytes() == 3000*pages.Size {
					t.Errorf("%+v", r)
				}
			})
		})
	}
}

// TestPoolOfAnotherName: pages of a pool file that no process has mounted appear only in numa_maps.
func TestPoolOfAnotherName(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake, o mover.Order) {
		f.nodes[0].pool = 10
		m := huge(0x7fa000000000, 4, 1, true)
		m.path = "/memfd:a (deleted)"
		for _, g := range m.folios {
			g.file = true
		}
		f.add(1, 0, 1).mappings = []*mapping{m}
		r := run(t, f, o)
		if r.Outcome != locality.Completed || len(r.Moved) != 1 || r.Moved[0].HugeTLB != 4*pages.HugeSize || f.nodes[0].pool != 6 {
			t.Errorf("%+v, %d pages left in the pool", r, f.nodes[0].pool)
		}
	})
}

// TestEndsWhileRead: the files of an ended process are empty, which is not a failure.
func TestEndsWhileRead(t *testing.T) {
	for _, file := range []string{"maps", "pagemap"} {
		t.Run(file, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fake, o mover.Order) {
				p := f.add(1, 10, 1)
				f.opening = func(name string) { p.ended = p.ended || strings.HasSuffix(name, "/"+file) }
				if r := run(t, f, o); len(r.Exited) != 1 || len(r.Warnings) > 0 {
					t.Errorf("%+v", r)
				}
			})
		})
	}
}

func TestZombiesAreNamedOnce(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake, o mover.Order) {
		f.add(1, 10, 1).zombie = true
		f.add(2, 10, 1).zombie = true
		f.add(3, 10, 1)
		if r := run(t, f, o); len(r.Exited) != 2 || len(r.Warnings) > 0 || r.Bytes() != 10*pages.Size {
			t.Errorf("%+v", r)
		}
	})
}

func TestOnlySwap(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake, o mover.Order) {
		m := f.add(1, 10, 0).mappings[0]
		delete(m.folios, m.start)
		m.swapped[m.start] = true
		if r := run(t, f, o); r.Outcome != locality.Skipped || r.Left[locality.LeftSwapped] != 1 {
			t.Errorf("%+v", r)
		}
	})
}

// TestPauseOfOne: while one group pauses, the other group moves.
func TestPauseOfOne(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake, o mover.Order) {
		f.add(1, 50_000, 1)
		o.Rate = 16 << 20
		f.before = func(n int) {
			f.mu.Lock()
			defer f.mu.Unlock()
			if n == 10 {
				f.stalled += time.Second
			}
		}
		m := start(t, f)
		m.Order(o)
		o.Key, o.Group = "b", "h"
		m.Order(o)
		for m.Reports()[0].Phase != mover.Paused {
			time.Sleep(50 * time.Millisecond)
		}
		before := m.Reports()[1].Calls
		time.Sleep(3 * time.Second)
		if all := m.Reports(); all[0].Phase != mover.Paused || all[1].Calls < before+5 {
			t.Errorf("%+v", all)
		}
		finished(t, m)
	})
}

// TestBlocksRunOut: other programs take the free blocks while huge pages move. No huge page may be split.
func TestBlocksRunOut(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake, o mover.Order) {
		f.add(1, 0, 1).mappings = []*mapping{huge(0x7f8000000000, 100, 1, false)}
		o.Rate = 64 << 20
		time.AfterFunc(300*time.Millisecond, func() {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.nodes[0].blocks = 0
		})
		if r := run(t, f, o); f.splits > 0 || r.Bytes() == 0 || r.Left[locality.LeftNoHugeBlock] == 0 {
			t.Errorf("%d huge pages were split: %+v", f.splits, r)
		}
	})
}

// TestRealTime: if real-time threads could starve the call that moves pages forever, the mover makes no call for any
// order.
func TestRealTime(t *testing.T) {
	for name, c := range map[string]struct {
		release      string
		runtime      string
		servers      []string // budgets of the fair servers of CPUs 0 and 1
		dry, refused bool
		says         string
	}{
		"no limit, no fair server":       {"6.11.0-9-generic", "-1", nil, false, true, "sched_rt_runtime_us is \"-1\", of a period of \"1000000\""},
		"all of the period":              {"6.11.0-9-generic", "1000000", nil, false, true, "sched_rt_runtime_us is \"1000000\""},
		"not known":                      {"6.11.0-9-generic", "", nil, false, true, "sched_rt_runtime_us is \"\""},
		"a limit of 0 is none":           {"6.11.0-9-generic", "0", nil, false, true, "sched_rt_runtime_us is \"0\", of a period of \"1000000\""},
		"a dry run":                      {"6.11.0-9-generic", "-1", nil, true, false, ""},
		"a server without a budget":      {"6.11.0-9-generic", "-1", []string{"50000000", "0"}, false, true, "fair_server/cpu1/runtime is 0"},
		"a limit that only servers keep": {"6.11.0-9-generic", "950000", []string{"50000000", "0"}, false, true, "fair_server/cpu1/runtime is 0"},
		"each server has a budget":       {"6.11.0-9-generic", "-1", []string{"50000000", "50000000"}, false, false, ""},
		"a limit":                        {"6.11.0-9-generic", "950000", nil, false, false, ""},
		"servers that are hidden":        {"7.2.0", "1000000", nil, false, false, ""},
		"the first kernel with servers":  {"6.12.1", "950000", nil, false, false, ""},
		"hidden servers, no limit":       {"6.12.1", "-1", nil, false, true, "sched_rt_runtime_us is \"-1\", and the runtimes of fair servers are hidden"},
		"hidden servers, limit unknown":  {"6.12.1", "", nil, false, true, "sched_rt_runtime_us is \"\""},
		"hidden servers, a limit of 0":   {"6.12.1", "0", nil, false, true, "sched_rt_runtime_us is \"0\", and the runtimes of fair servers are hidden"},
		"one hidden server, no limit":    {"6.12.1", "-1", []string{"50000000"}, false, true, "are hidden"},
		"servers of 6.12, no limit":      {"6.12.1", "-1", []string{"50000000", "50000000"}, false, false, ""},
		"a server of two":                {"6.11.0-9-generic", "-1", []string{"50000000"}, false, true, "sched_rt_runtime_us is \"-1\""},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fake, o mover.Order) {
				f.add(1, 10, 1)
				f.files = map[string]string{
					"proc/sys/kernel/osrelease":           c.release + "\n",
					"proc/sys/kernel/sched_rt_runtime_us": c.runtime + "\n", "proc/sys/kernel/sched_rt_period_us": "1000000\n",
					"sys/devices/system/cpu/online": "0-1\n",
				}
				for cpu, budget := range c.servers {
					f.files[fmt.Sprintf("sys/kernel/debug/sched/fair_server/cpu%d/runtime", cpu)] = budget + "\n"
				}
				o.DryRun = c.dry
				r := run(t, f, o)
				if errors.Is(r.Err, mover.ErrRealTime) != c.refused || (len(f.calls) == 0) != (c.refused || c.dry) {
					t.Errorf("%d calls: %+v", len(f.calls), r)
				}
				if text := fmt.Sprint(r.Err); c.refused && !strings.Contains(text, c.says) {
					t.Error(text)
				}
			})
		})
	}
}
