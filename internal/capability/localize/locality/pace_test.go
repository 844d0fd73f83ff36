package locality

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// drive makes calls for length, with a cost per page and a look of the given duration for the pages of each second. It
// returns the pages moved, and the maximum number of calls in a second.
func drive(p *Pace, length, cost, look time.Duration, signs func(now time.Duration) Signs) (moved, calls int) {
	var began []time.Duration
	found := 0
	for now := time.Duration(0); now < length; {
		if found <= 0 {
			now, found = now+look, p.Ahead()
			continue
		}
		if p.Due(now) {
			p.Look(now, signs(now))
		}
		if wait := p.Wait(now); wait > 0 {
			now += wait
			continue
		}
		n := p.Pages()
		took := time.Duration(n) * cost
		p.Called(now, took, n, true)
		began = append(began, now)
		now += took
		moved += n
		found -= n
	}
	for i := range began {
		n := 0
		for _, b := range began[i:] {
			if b < began[i]+time.Second {
				n++
			}
		}
		calls = max(calls, n)
	}
	return moved, calls
}

func paused(p *Pace, now time.Duration) time.Duration {
	_, left := p.Paused(now)
	return left
}

func quiet(time.Duration) Signs { return Signs{} }

// TestPaceKeepsTheLimit checks that a limit is met within a twentieth over ten seconds, with at most 20 calls per
// second, each of 1,024 to 65,536 pages.
func TestPaceKeepsTheLimit(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.Int64Range(8<<20, 2<<30).Draw(t, "limit")
		cost := time.Duration(rapid.IntRange(300, 1500).Draw(t, "cost"))
		look := time.Duration(rapid.Int64Range(0, int64(credit)).Draw(t, "look"))
		p := NewPace(limit, 0)
		moved, calls := drive(&p, 10*time.Second, cost, look, quiet)
		if calls > CallsPerSecond+1 {
			t.Fatalf("%d calls in a second", calls)
		}
		// The limits of the machine, the looks and the minimum time between two calls.
		ahead, list := float64(p.Ahead()), float64(p.Pages())
		call := list * cost.Seconds()
		turn := look.Seconds() + (math.Ceil(ahead/list)-1)*max(call, aimed.Seconds()) + call
		most := min(float64(limit), pageSize*ahead/turn)
		if got := float64(moved) * pageSize / 10; math.Abs(got/most-1) > 0.05 && got < 0.95*most || got > 1.05*float64(limit) {
			t.Fatalf("%.0f bytes a second, limit %d, machine %.0f", got, limit, pageSize/cost.Seconds())
		}
	})
}

// TestPaceWithoutLimit checks that the pace never waits without a limit, and that a call takes a twentieth of a second.
func TestPaceWithoutLimit(t *testing.T) {
	t.Parallel()
	var p Pace
	moved, _ := drive(&p, 10*time.Second, time.Microsecond, 0, quiet)
	if moved < 9_900_000 {
		t.Errorf("%d pages", moved)
	}
	if n := p.Pages(); n != 50_000 {
		t.Errorf("%d pages a call", n)
	}
}

func TestPaceSlowsDown(t *testing.T) {
	t.Parallel()
	p := NewPace(256<<20, 0)
	p.Look(0, Signs{})
	p.Look(time.Second, Signs{Stalled: 60 * time.Millisecond})
	if p.Rate() != 128<<20 {
		t.Errorf("6 per cent stalled: %.0f", p.Rate())
	}
	p.Look(2*time.Second, Signs{Stalled: 60 * time.Millisecond})
	if p.Rate() != 144<<20 {
		t.Errorf("an eighth more: %.0f", p.Rate())
	}
	p.Look(3*time.Second, Signs{Stalled: 300 * time.Millisecond})
	if p.Rate() != 72<<20 || paused(&p, 3*time.Second) != pause || p.Pauses() != 1 {
		t.Errorf("24 per cent stalled: %.0f, %s", p.Rate(), paused(&p, 3*time.Second))
	}
	p.Look(9*time.Second, Signs{Stalled: 300 * time.Millisecond, SwappedOut: 1})
	if paused(&p, 9*time.Second) != swapPause || p.Pauses() != 2 {
		t.Errorf("swapped out: %s", paused(&p, 9*time.Second))
	}
	for now := 10 * time.Second; now < 60*time.Second; now += time.Second {
		p.Look(now, Signs{Stalled: 300 * time.Millisecond, SwappedOut: 1})
	}
	if p.Rate() != 256<<20 || paused(&p, time.Minute) > 0 {
		t.Errorf("quiet again: %.0f", p.Rate())
	}
}

func TestPaceSlowsDownWherePagesGetCostly(t *testing.T) {
	t.Parallel()
	var p Pace
	p.Look(0, Signs{})
	p.Called(0, time.Millisecond, 1000, true)
	p.Called(time.Millisecond, 9*time.Millisecond, 1000, true)
	p.Look(time.Second, Signs{})
	if p.Rate() != 0 {
		t.Errorf("one call that was slow: %.0f", p.Rate())
	}
	for range 20 {
		p.Called(time.Second, 5*time.Millisecond, 1000, true)
	}
	p.Look(2*time.Second, Signs{})
	if want := float64(20_000*pageSize) / 2; p.Rate() != want {
		t.Errorf("%.0f, want %.0f", p.Rate(), want)
	}
}

// TestPaceForgetsTheBestCall checks that one cheap call does not slow down a pass permanently.
func TestPaceForgetsTheBestCall(t *testing.T) {
	t.Parallel()
	p := NewPace(256<<20, 0)
	p.Called(0, time.Millisecond, 1000, true)
	for now := time.Duration(0); now < 2*time.Minute; now += time.Second {
		p.Look(now, Signs{})
		for range 2 * enoughCalls {
			p.Called(now, 5*time.Millisecond, 1000, true)
		}
	}
	if p.Rate() < 200<<20 {
		t.Errorf("%.0f", p.Rate())
	}
}

// TestPaceStaysInBounds checks that, for any signs, the rate stays between the minimum and the limit, and calls stay
// within their bounds.
func TestPaceStaysInBounds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.SampledFrom([]int64{0, 1 << 20, 256 << 20}).Draw(t, "limit")
		p := NewPace(limit, 0)
		var now time.Duration
		var s Signs
		for range rapid.IntRange(1, 50).Draw(t, "steps") {
			now += time.Duration(rapid.Int64Range(0, int64(3*time.Second)).Draw(t, "passed"))
			s.Stalled += time.Duration(rapid.Int64Range(0, int64(time.Second)).Draw(t, "stalled"))
			s.SwappedOut += rapid.Int64Range(0, 1).Draw(t, "swapped")
			if p.Due(now) {
				p.Look(now, s)
			}
			p.Called(now, time.Duration(rapid.Int64Range(0, int64(time.Minute)).Draw(t, "took")), rapid.IntRange(0, MostPages).Draw(t, "pages"), true)
			if n := p.Pages(); n < FewestPages || n > MostPages {
				t.Fatalf("%d pages", n)
			}
			if r := p.Rate(); r < 0 || limit > 0 && r > float64(limit) || p.Wait(now) < 0 {
				t.Fatalf("rate %f, wait %s", r, p.Wait(now))
			}
		}
	})
}
