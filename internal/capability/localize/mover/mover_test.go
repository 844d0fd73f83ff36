package mover_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-project/berth/internal/capability/localize/locality"
	"github.com/berth-project/berth/internal/capability/localize/mover"
	"github.com/berth-project/berth/internal/linux/pages"
	"github.com/berth-project/berth/internal/value/cpuset"
)

func local(t interface{ Fatal(...any) }, list string) cpuset.Set {
	s, err := cpuset.Parse(list)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// order returns an order for node 0 of a fake.
func order(t interface{ Fatal(...any) }, f *fake) mover.Order {
	o := mover.Order{Key: "a", Group: "g", Local: local(t, "0")}
	for i := range f.nodes {
		o.Nodes = append(o.Nodes, locality.Node{ID: i, Bytes: 1})
	}
	return o
}

// start runs a mover until the test ends.
func start(t *testing.T, f *fake) *mover.Mover {
	t.Helper()
	began := time.Now()
	m := mover.New(mover.Options{
		Clock: func() time.Duration { return time.Since(began) }, Log: slog.New(slog.DiscardHandler), Kernel: f, Groups: f,
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return m
}

// run carries out one order and checks what must be true of every report.
func run(t *testing.T, f *fake, o mover.Order) mover.Report {
	t.Helper()
	m := start(t, f)
	m.Order(o)
	r := finished(t, m)
	account(t, r)
	return r
}

func finished(t *testing.T, m *mover.Mover) mover.Report {
	t.Helper()
	for range 100_000 {
		if r := m.Reports()[0]; r.Phase == mover.Done {
			return r
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatal("the pass does not end")
	return mover.Report{}
}

func account(t interface{ Fatalf(string, ...any) }, r mover.Report) {
	sum := r.Bytes() / pages.Size
	for _, n := range r.Left {
		sum += n
	}
	if sum != r.Found {
		t.Fatalf("found %d pages, moved and left %d: %+v", r.Found, sum, r)
	}
}

func TestPass(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		change  func(*fake, *mover.Order)
		outcome locality.Outcome
		err     error
		moved   []mover.Moved
		left    map[locality.Left]int64
	}{
		"base pages": {
			func(f *fake, _ *mover.Order) { f.add(1, 5000, 1) },
			locality.Completed, nil,
			[]mover.Moved{{Pair: locality.Pair{From: 1}, Base: 5000 * pages.Size}},
			nil,
		},
		"nothing to do": {
			func(f *fake, _ *mover.Order) { f.add(1, 100, 0) },
			locality.Skipped, nil, nil, nil,
		},
		"no process": {nil, locality.Skipped, nil, nil, nil},
		"huge pages of both kinds": {
			func(f *fake, _ *mover.Order) {
				f.nodes[0].pool = 8
				p := f.add(1, 700, 1)
				p.mappings = append(p.mappings, huge(0x7f8000000000, 6, 1, false), huge(0x7fa000000000, 4, 1, true))
			},
			locality.Completed, nil,
			[]mover.Moved{{Pair: locality.Pair{From: 1}, Base: 700 * pages.Size, Huge: 6 * pages.HugeSize, HugeTLB: 4 * pages.HugeSize}},
			nil,
		},
		"no free block": {
			func(f *fake, _ *mover.Order) {
				f.nodes[0].blocks = 2
				p := f.add(1, 1024, 1)
				p.mappings = append(p.mappings, huge(0x7f8000000000, 6, 1, false))
			},
			locality.Completed, nil,
			[]mover.Moved{{Pair: locality.Pair{From: 1}, Base: 1024 * pages.Size}},
			map[locality.Left]int64{locality.LeftNoHugeBlock: 6 * 512},
		},
		"an empty pool": {
			func(f *fake, _ *mover.Order) {
				f.nodes[0].pool = 1
				f.add(1, 0, 1).mappings = []*mapping{huge(0x7fa000000000, 4, 1, true)}
			},
			locality.Completed, nil,
			[]mover.Moved{{Pair: locality.Pair{From: 1}, HugeTLB: pages.HugeSize}},
			map[locality.Left]int64{locality.LeftNoHugeBlock: 3 * 512},
		},
		"a policy": {
			func(f *fake, _ *mover.Order) {
				p := f.add(1, 100, 1)
				bound, local := anonymous(0x7f8000000000, 50, 1), anonymous(0x7fa000000000, 30, 1)
				bound.policy, local.policy = "bind:1", "local"
				p.mappings = append(p.mappings, bound, local)
			},
			locality.Completed, nil,
			[]mover.Moved{{Pair: locality.Pair{From: 1}, Base: 130 * pages.Size}},
			map[locality.Left]int64{locality.LeftPolicy: 50},
		},
		"shared, swapped, held, stuck, zeroes": {
			func(f *fake, _ *mover.Order) {
				m := f.add(1, 1000, 1).mappings[0]
				at := func(i int) *folio { return m.folios[m.start+uint64(i)*pages.Size] }
				at(1).shared, at(2).shared, at(10).held, at(900).held, at(20).stuck, at(30).zero = true, true, true, true, true, true
				m.swapped[m.start+40*pages.Size], m.swapped[m.start+41*pages.Size] = true, true
			},
			locality.Completed, nil,
			[]mover.Moved{{Pair: locality.Pair{From: 1}, Base: (1000 - 8) * pages.Size}},
			map[locality.Left]int64{locality.LeftShared: 2, locality.LeftBusy: 3, locality.LeftSwapped: 2},
		},
		"pinned": {
			func(f *fake, _ *mover.Order) {
				p := f.add(1, 10, 1)
				p.vmPin, p.mappings[0].folios[p.mappings[0].start].held = 4, true
			},
			locality.Completed, nil,
			[]mover.Moved{{Pair: locality.Pair{From: 1}, Base: 9 * pages.Size}},
			map[locality.Left]int64{locality.LeftPinned: 1},
		},
		"another tier": {
			func(f *fake, o *mover.Order) { f.add(1, 10, 1); o.Nodes[1].Tier = 1 },
			locality.Completed, nil, nil,
			map[locality.Left]int64{locality.LeftTier: 10},
		},
		"no room": {
			func(f *fake, _ *mover.Order) { f.add(1, 10, 1); f.nodes[0].free = 2000 },
			locality.Failed, mover.ErrNoRoom, nil,
			map[locality.Left]int64{locality.LeftNoRoom: 10},
		},
		"a process that ends, and has no mounts any more": {
			func(f *fake, _ *mover.Order) { f.add(1, 10, 1).ending = true },
			locality.Skipped, nil, nil, nil,
		},
		"a foreign cpuset.mems": {
			func(f *fake, _ *mover.Order) { f.add(1, 10, 1).mems = func(n int) bool { return n != 0 } },
			locality.Failed, pages.ErrMems, nil, nil,
		},
		"no right": {
			func(f *fake, _ *mover.Order) { f.add(1, 10, 1); f.refuse = syscall.EPERM },
			locality.Failed, pages.ErrRights, nil, nil,
		},
		"the leader is a zombie": {
			func(f *fake, _ *mover.Order) {
				p := f.add(1, 10, 1)
				p.zombie, p.threads = true, []int{1, 5}
			},
			locality.Completed, nil,
			[]mover.Moved{{Pair: locality.Pair{From: 1}, Base: 10 * pages.Size}},
			nil,
		},
		"dry run": {
			func(f *fake, o *mover.Order) { f.add(1, 5000, 1); o.DryRun = true },
			locality.Completed, nil,
			[]mover.Moved{{Pair: locality.Pair{From: 1}, Base: 5000 * pages.Size}},
			nil,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newFake(2)
				o := order(t, f)
				if tt.change != nil {
					tt.change(f, &o)
				}
				r := run(t, f, o)
				if r.Outcome != tt.outcome || !errors.Is(r.Err, tt.err) {
					t.Errorf("outcome %s, %v; want %s, %v", r.Outcome, r.Err, tt.outcome, tt.err)
				}
				if !slices.Equal(r.Moved, tt.moved) {
					t.Errorf("moved %+v, want %+v", r.Moved, tt.moved)
				}
				for _, why := range locality.Lefts() {
					if r.Left[why] != tt.left[why] {
						t.Errorf("left %s: %d, want %d", why, r.Left[why], tt.left[why])
					}
				}
				if f.splits > 0 {
					t.Errorf("%d huge pages were split", f.splits)
				}
				if o.DryRun != (len(f.calls) == 0 && len(tt.moved) > 0) {
					t.Errorf("%d calls", len(f.calls))
				}
			})
		})
	}
}
