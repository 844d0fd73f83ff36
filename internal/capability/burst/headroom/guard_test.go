package headroom_test

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/berth-project/berth/internal/capability/burst/headroom"
	"github.com/berth-project/berth/internal/value/unit"
	_ "github.com/berth-project/berth/test/chance" // fixes the cases of the properties
)

func drawDemands(t *rapid.T) []headroom.Demand {
	one := rapid.Custom(func(t *rapid.T) headroom.Demand {
		limit := rapid.OneOf(rapid.Float64Range(0.001, 64), rapid.SampledFrom([]float64{0, 1, 1, 2, 4})).Draw(t, "limit")
		part := rapid.OneOf(rapid.Float64Range(0, 10), rapid.SampledFrom([]float64{1, 3})).Draw(t, "part")
		return headroom.Demand{Limit: unit.CPUs(limit), Ceiling: unit.CPUs(limit * part)}
	})
	return rapid.SliceOfN(one, 0, 12).Draw(t, "demands")
}

// poured is an oracle: it finds the water level by bisection.
func poured(headroom float64, demands []headroom.Demand) []float64 {
	at := func(level float64) ([]float64, float64) {
		out, sum := make([]float64, len(demands)), 0.0
		for i, d := range demands {
			out[i] = min(max(0, float64(d.Ceiling-d.Limit)), level*float64(d.Limit))
			sum += out[i]
		}
		return out, sum
	}
	low, high := 0.0, 1e6
	if out, sum := at(high); sum <= headroom {
		return out
	}
	for range 200 {
		if mid := (low + high) / 2; func() bool { _, sum := at(mid); return sum <= headroom }() {
			low = mid
		} else {
			high = mid
		}
	}
	out, _ := at(low)
	return out
}

func TestShare(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		demands := drawDemands(t)
		threshold := rapid.Float64Range(0, 1).Draw(t, "threshold")
		u := rapid.Float64Range(0, 1.2).Draw(t, "u")
		pool := rapid.Float64Range(0, 256).Draw(t, "pool")
		got := headroom.Share(threshold, u, unit.CPUs(pool), demands)

		headroom := max(0, (1-u)*pool)
		want := poured(headroom, demands)
		sum := 0.0
		for i, d := range demands {
			if got[i] < d.Limit || got[i] > max(d.Limit, d.Ceiling)+1e-9 {
				t.Fatalf("group %d: ceiling %v outside of %v..%v", i, got[i], d.Limit, d.Ceiling)
			}
			extra := float64(got[i] - d.Limit)
			sum += extra
			if u < threshold {
				want[i] = max(0, float64(d.Ceiling-d.Limit))
			}
			if math.Abs(extra-want[i]) > 1e-6 {
				t.Fatalf("group %d: %v above its limit, want %v", i, extra, want[i])
			}
		}
		if u >= threshold && sum > headroom+1e-9 {
			t.Fatalf("shared out %v of %v", sum, headroom)
		}
	})
}

func TestShareWithoutMean(t *testing.T) {
	d := []headroom.Demand{{ID: "a", Limit: 2, Ceiling: 6}}
	if got := headroom.Share(0.5, math.NaN(), 8, d); got[0] != 2 {
		t.Errorf("ceiling %v without a mean, want the limit", got[0])
	}
	if got := headroom.Share(0.5, 0.75, 8, d); got[0] != 4 {
		t.Errorf("ceiling %v, want 2 of the node's 2 above the limit of 2", got[0])
	}
}

// TestGuardSteps checks that the ceiling stays within its range and moves by at least a fifth of the headroom. It moves
// at most once in ten seconds, except to the limit, where it falls at once. It rises at most to the minimum of the
// share over the time that the guard remembers.
func TestGuardSteps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := headroom.Demand{Limit: 2, Ceiling: unit.CPUs(rapid.Float64Range(2, 20).Draw(t, "ceiling"))}
		room := float64(d.Ceiling - d.Limit)
		var g headroom.Guard
		now, moved, last, first := time.Duration(0), time.Duration(-math.MaxInt64/2), d.Limit, true
		var history []grant
		for range rapid.IntRange(1, 200).Draw(t, "looks") {
			now += time.Duration(rapid.IntRange(50, 4000).Draw(t, "ms")) * time.Millisecond
			part := rapid.OneOf(rapid.Float64Range(0, 1), rapid.Float64Range(0.7, 1), rapid.SampledFrom([]float64{0, 1})).Draw(t, "part")
			share := d.Limit + unit.CPUs(part*room)
			history = append(history, grant{now, share})
			var got unit.CPUs
			g, got = g.Next(now, d, share)
			step, least := math.Abs(float64(got-last)), leastSince(history, now-headroom.GuardMemory)
			switch {
			case got < d.Limit || got > d.Ceiling:
				t.Fatalf("ceiling %v outside of %v..%v", got, d.Limit, d.Ceiling)
			case share == d.Limit && got != d.Limit:
				t.Fatalf("ceiling %v where nothing is left", got)
			case got != last && got != d.Limit && now-moved < headroom.GuardPause:
				t.Fatalf("moved to %v after %v", got, now-moved)
			case got != last && got != d.Limit && step < 0.2*room-1e-9:
				t.Fatalf("moved by %v of %v", step, room)
			case got > last && !first && (now-moved < headroom.GuardMemory || got > least):
				t.Fatalf("rose to %v after %v, least share meanwhile %v", got, now-moved, least)
			case got > share && now-moved >= headroom.GuardPause && float64(last-share) > 0.2*room+1e-9:
				t.Fatalf("stood at %v, share %v, for %v", got, share, now-moved)
			}
			if got != last {
				moved, last, first = now, got, false
			}
		}
	})
}

// grant is a share at a moment.
type grant struct {
	at    time.Duration
	share unit.CPUs
}

// leastSince returns the minimum share since a moment.
func leastSince(history []grant, from time.Duration) unit.CPUs {
	least := unit.CPUs(math.Inf(1))
	for _, h := range history {
		if h.at >= from {
			least = min(least, h.share)
		}
	}
	return least
}

// TestGuardMovesRarely checks that for any share the ceiling moves no more than once in 20 s over any window, plus a
// few times.
func TestGuardMovesRarely(t *testing.T) {
	const once, every = 6, 20 * time.Second
	rapid.Check(t, func(t *rapid.T) {
		d := headroom.Demand{Limit: 1, Ceiling: 3}
		period := time.Duration(rapid.IntRange(2, 200).Draw(t, "period")) * time.Second
		falls := time.Duration(rapid.IntRange(0, 60).Draw(t, "falls")) * time.Second
		var g headroom.Guard
		var moves []time.Duration
		last := d.Limit
		for now := time.Duration(0); now < 20*time.Minute; now += time.Second {
			share := d.Ceiling // falls by slightly more than a fifth at a time, then stays high
			if at := now % (period + falls); at < falls {
				share -= unit.CPUs(0.41 * math.Ceil(at.Seconds()/10))
			}
			var got unit.CPUs
			if g, got = g.Next(now, d, share); got != last {
				moves, last = append(moves, now), got
			}
		}
		for i := range moves {
			for k := range moves[i:] {
				if most := once + int((moves[i+k]-moves[i])/every); k+1 > most {
					t.Fatalf("%d moves in %v: %v", k+1, moves[i+k]-moves[i], moves)
				}
			}
		}
	})
}

// TestGuardRises checks that a share which stays high is granted once the guard remembers no lower share.
func TestGuardRises(t *testing.T) {
	d := headroom.Demand{Limit: 1, Ceiling: 3}
	g, _ := headroom.Guard{}.Next(0, d, 3)
	g, got := g.Next(20*time.Second, d, 1.5)
	if got != 1.5 {
		t.Fatalf("ceiling %v on a busy node, want 1.5", got)
	}
	for now := 21 * time.Second; got != 3; now += time.Second {
		if g, got = g.Next(now, d, 3); now > 20*time.Second+headroom.GuardMemory+2*time.Second {
			t.Fatalf("ceiling %v at %v", got, now)
		}
	}
}

func TestGuardStartsAnew(t *testing.T) {
	var g headroom.Guard
	g, _ = g.Next(0, headroom.Demand{Limit: 1, Ceiling: 3}, 3)
	if _, got := g.Next(time.Second, headroom.Demand{Limit: 2, Ceiling: 6}, 6); got != 6 {
		t.Errorf("ceiling %v after a resize, want 6", got)
	}
	if _, got := g.Next(time.Second, headroom.Demand{Limit: 1, Ceiling: 3}, unit.CPUs(math.NaN())); got != 1 {
		t.Errorf("ceiling %v for no share, want the limit", got)
	}
}

// TestMean compares the ring with a mean over all samples.
func TestMean(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type sample struct {
			at time.Duration
			v  float64
		}
		var m headroom.Mean
		if !math.IsNaN(m.Value()) {
			t.Fatal("a mean of nothing")
		}
		at := time.Duration(rapid.IntRange(0, 1e9).Draw(t, "start"))
		all := []sample{{at: at}}
		m.Add(at, 99)
		// Samples at least 157 ms apart are never joined.
		shortest := rapid.SampledFrom([]int{1, 157}).Draw(t, "shortest")
		longest := rapid.SampledFrom([]int{200, 2000, 30_000}).Draw(t, "longest")
		for range rapid.IntRange(1, 400).Draw(t, "samples") {
			at += time.Duration(rapid.IntRange(shortest, longest).Draw(t, "ms")) * time.Millisecond
			v := rapid.Float64Range(0, 1).Draw(t, "v")
			all = append(all, sample{at, v})
			m.Add(at, v)
		}
		start := max(at-headroom.MeanWindow, all[0].at)
		sum := 0.0
		for i, s := range all[1:] {
			if from := max(all[i].at, start); s.at > from {
				sum += s.v * (s.at - from).Seconds()
			}
		}
		// If the window begins inside joined samples, their mean is used.
		slack := 1e-9
		if shortest < 157 {
			slack = 1.0 / 64
		}
		if want := sum / (at - start).Seconds(); math.Abs(m.Value()-want) > slack {
			t.Fatalf("mean %v, want %v", m.Value(), want)
		}
	})
}
