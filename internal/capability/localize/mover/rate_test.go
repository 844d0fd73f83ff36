package mover_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-project/berth/internal/capability/localize/mover"
	"github.com/berth-project/berth/internal/linux/pages"
)

// TestRateIsKept makes passes of ten seconds on a kernel that is slow to report where pages are. A whole pass and any
// ten seconds of it stay within 5% of the limit, for any share of memory that moves.
func TestRateIsKept(t *testing.T) {
	t.Parallel()
	const seconds, limit, parts = 10, 16 << 20, 2
	for _, remote := range []int{40, 100} {
		for _, move := range []time.Duration{time.Microsecond, 25 * time.Microsecond} {
			for _, look := range []time.Duration{0, 16 * time.Microsecond} {
				t.Run(fmt.Sprintf("%d per cent, %s, %s", remote, move, look), func(t *testing.T) {
					t.Parallel()
					synctest.Test(t, func(t *testing.T) {
						f := newFake(2)
						f.cost, f.look = move, look/2
						o := order(t, f)
						o.Rate = limit
						spread(f.add(1, 0, 1), limit*seconds/pages.Size*100/remote/parts, parts, remote)
						kept(t, f, run(t, f, o), limit)
					})
				})
			}
		}
	}
}

// spread gives a process mappings of n pages each, with remote percent of them on node 1.
func spread(p *process, n, parts, remote int) {
	p.mappings = nil
	for part := range parts {
		m := anonymous(0x500000000000+uint64(part)<<40, n, 0)
		for i := range n {
			if i*37%100 < remote {
				m.folios[m.start+uint64(i)*pages.Size].node = 1
			}
		}
		p.mappings = append(p.mappings, m)
	}
}

// kept compares a pass with its limit in bytes per second.
func kept(t *testing.T, f *fake, r mover.Report, limit float64) {
	t.Helper()
	took := (r.Ended - r.Started).Seconds()
	if rate := float64(r.Bytes()) / took; rate < 0.95*limit || rate > 1.05*limit {
		t.Errorf("%.3f of the limit in %.1f s, %d calls", rate/limit, took, r.Calls)
	}
	const window = 10 * time.Second
	for i := range f.moves {
		var sum int64
		for _, m := range f.moves[i:] {
			if m.at.Sub(f.moves[i].at) < window {
				sum += m.pages * pages.Size
			}
		}
		if share := float64(sum) / window.Seconds() / limit; share > 1.05 {
			t.Fatalf("%.3f of the limit in the ten seconds from call %d on", share, i)
		}
	}
}

// TestTimes: a pass without a limit spends all its time on the search for pages and on its calls.
func TestTimes(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake, o mover.Order) {
		f.cost, f.look = 2*time.Microsecond, time.Microsecond
		spread(f.add(1, 0, 1), 200_000, 1, 57)
		r := run(t, f, o)
		const sample = 64 * time.Microsecond
		if took := r.Ended - r.Started; r.Called+r.Looked != took || r.Looked != 200*time.Millisecond+sample || r.Called != 228*time.Millisecond {
			t.Errorf("%s: %+v", took, r)
		}
	})
}
