package lending_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/berth-project/berth/internal/capability/place/lending"
	"github.com/berth-project/berth/internal/value/unit"
	_ "github.com/berth-project/berth/test/chance" // fixes the cases of the properties
)

// How wide a group is that has this limit and these threads, and was never throttled.
func TestWidth(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reserved int
		limit    unit.CPUs
		threads  int
		want     int
		why      string
	}{
		"many threads":             {4, 4, 3000, 8, "up to twice its limit"},
		"few threads":              {4, 4, 6, 6, "up to as many as it has threads, 6"},
		"fewer threads than CPUs":  {4, 4, 1, 4, "up to as many as it has threads, 1"},
		"threads not known":        {4, 4, 0, 8, "up to twice its limit"},
		"a fraction":               {3, 2.5, 99, 5, "up to twice its limit"},
		"a fraction of little use": {2, 1.2, 99, 2, "twice its limit is no more than what is reserved"},
		"less than half a CPU":     {1, 0.3, 99, 1, "twice its limit is no more than what is reserved"},
		"more than a machine has":  {1, 1e12, 99, 99, "up to as many as it has threads, 99"},
	} {
		_, w := lending.Borrowing{}.Next(time.Hour, lending.Claim{Reserved: c.reserved, Limit: c.limit, Threads: c.threads, Throttled: 77})
		if w.CPUs != c.want || w.Why != c.why {
			t.Errorf("%s: %+v, want %d: %s", name, w, c.want, c.why)
		}
	}
}

// step is a look at a group of limit 2 with many threads.
type step struct {
	at        time.Duration
	throttled uint64
	want      int
}

// A throttled period narrows the group, for twice as long each time that it was wide, up to ten
// minutes.
func TestWidthPauses(t *testing.T) {
	t.Parallel()
	const s, m = time.Second, time.Minute
	for name, steps := range map[string][]step{
		"what was before the first look is no reason": {{s, 50, 4}, {2 * s, 50, 4}},
		"a minute":        {{s, 0, 4}, {2 * s, 1, 2}, {61 * s, 1, 2}, {62 * s, 1, 4}},
		"throttled still": {{s, 0, 4}, {2 * s, 1, 2}, {50 * s, 2, 2}, {109 * s, 2, 2}, {110 * s, 2, 4}},
		"doubling": {
			{s, 0, 4},
			{2 * s, 1, 2},
			{62 * s, 1, 4},
			{63 * s, 2, 2},
			{3*m + 2*s, 2, 2},
			{3*m + 3*s, 2, 4},
			{3*m + 4*s, 3, 2}, // four minutes
			{7*m + 4*s, 3, 4},
			{7*m + 5*s, 4, 2}, // eight
			{15*m + 5*s, 4, 4},
			{15*m + 6*s, 5, 2}, // ten
			{25*m + 5*s, 5, 2},
			{25*m + 6*s, 5, 4},
			{25*m + 7*s, 6, 2}, // ten
			{35*m + 7*s, 6, 4},
		},
		"again after ten minutes of width": {
			{s, 0, 4},
			{2 * s, 1, 2},
			{62 * s, 1, 4},
			{63 * s, 2, 2},
			{3*m + 3*s, 2, 4},
			{13*m + 3*s, 2, 4},
			{13*m + 4*s, 3, 2},
			{14*m + 3*s, 3, 2},
			{14*m + 4*s, 3, 4},
		},
		"a group that was made again": {{s, 9, 4}, {2 * s, 0, 4}, {3 * s, 1, 2}},
	} {
		var b lending.Borrowing
		for i, one := range steps {
			var w lending.Width
			b, w = b.Next(time.Hour+one.at, lending.Claim{Reserved: 2, Limit: 2, Threads: 100, Throttled: one.throttled})
			if w.CPUs != one.want {
				t.Errorf("%s, look %d at %s: width %d, want %d (%s)", name, i, one.at, w.CPUs, one.want, w.Why)
			}
		}
	}
}

// Threads count for a minute after they ended.
func TestWidthLasts(t *testing.T) {
	t.Parallel()
	var b lending.Borrowing
	for i, one := range []struct {
		at      int
		threads int
		want    int
	}{{0, 8, 8}, {30, 2, 8}, {59, 2, 8}, {60, 5, 5}, {90, 7, 7}, {149, 1, 7}, {150, 1, 4}} {
		var w lending.Width
		b, w = b.Next(time.Hour+time.Duration(one.at)*time.Second, lending.Claim{Reserved: 4, Limit: 4, Threads: one.threads})
		if w.CPUs != one.want {
			t.Errorf("look %d: width %d, want %d", i, w.CPUs, one.want)
		}
	}
}

// TestWidthLaw: whatever happens, the width is what is reserved at least, and no more than twice
// the limit and the threads of the last minute allow; nothing is borrowed for a minute after a
// throttled period; and one that is never throttled again is wide within ten minutes.
func TestWidthLaw(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		limit := unit.MilliCPUs(rapid.Int64Range(1, 16000).Draw(t, "limit"))
		c := lending.Claim{Limit: limit, Reserved: int(limit)}
		if unit.CPUs(c.Reserved) < limit {
			c.Reserved++
		}
		var b lending.Borrowing
		now, last := time.Duration(0), time.Duration(-1)
		type had struct {
			at      time.Duration
			threads int
		}
		var lately []had
		for range rapid.IntRange(1, 200).Draw(t, "looks") {
			now += time.Duration(rapid.SampledFrom([]int{1, 1, 1, 5, 60, 700}).Draw(t, "seconds")) * time.Second
			c.Threads = rapid.IntRange(1, 40).Draw(t, "threads")
			if rapid.IntRange(0, 9).Draw(t, "throttled") == 0 {
				c.Throttled++
				if c.Throttled > 1 || b != (lending.Borrowing{}) {
					last = now
				}
			}
			lately = append(lately, had{now, c.Threads})
			again, w := b.Next(now, c)
			if twice, same := b.Next(now, c); twice != again || same != w {
				t.Fatalf("the same look gives %+v and %+v", w, same)
			}
			b = again
			most := 0
			for _, one := range lately {
				if one.at > now-time.Minute-700*time.Second {
					most = max(most, one.threads)
				}
			}
			switch {
			case w.CPUs < c.Reserved, w.CPUs > c.Reserved && unit.CPUs(w.CPUs) > 2*limit, w.CPUs > max(c.Reserved, most):
				t.Fatalf("width %+v of %+v", w, c)
			case last >= 0 && now-last < time.Minute && w.CPUs != c.Reserved:
				t.Fatalf("%s after a throttled period: %+v", now-last, w)
			case (last < 0 || now-last >= 10*time.Minute) && w.CPUs < min(c.Threads, int(2*limit)):
				t.Fatalf("not throttled for %s: %+v of %+v", now-last, w, c)
			}
		}
	})
}
