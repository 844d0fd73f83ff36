package bench

import (
	"slices"
	"testing"
	"time"

	"github.com/berth-project/berth/internal/capability/burst/credit"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/proof/load"
	"github.com/berth-project/berth/internal/value/unit"
)

// TestStrikes counts the strikes in recorded series of quotas: the limit is 50 ms in 100 ms.
func TestStrikes(t *testing.T) {
	for name, c := range map[string]struct {
		series []unit.Micros
		want   int
	}{
		"nothing":                          {nil, 0},
		"never raised":                     {[]unit.Micros{50_000, 50_000}, 0},
		"raised all the time":              {[]unit.Micros{149_998, 149_998, 149_998}, 0},
		"read more than once":              {[]unit.Micros{149_998, 149_998, 50_000, 50_000, 149_998, 50_000}, 2},
		"a raise is no strike":             {[]unit.Micros{50_000, 149_998}, 0},
		"a lower ceiling is no strike":     {[]unit.Micros{149_998, 99_998, 149_998}, 0},
		"from a lower ceiling":             {[]unit.Micros{149_998, 99_998, 50_000}, 1},
		"without a quota, below the limit": {[]unit.Micros{unit.NoLimit, 40_000}, 1},
	} {
		var q quotas
		for _, quota := range c.series {
			q = q.add(cgroup.Bandwidth{Quota: quota, Period: Period})
		}
		if got := q.strikes(50_000); got != c.want {
			t.Errorf("%s: %d strikes, want %d", name, got, c.want)
		}
	}
}

// TestStrikesSpendTheirCredit: a turn of work spends the whole credit at the ceiling, a turn of rest brings it back, and
// the credit pays for a raise on machines of any size.
func TestStrikesSpendTheirCredit(t *testing.T) {
	for _, n := range []int{2, 64, 256} {
		f := credit.Facts{LimitQuota: 50_000, Period: Period, CPUs: n, Slice: 5000, Tick: 4 * time.Millisecond}
		for _, a := range allAbusers() {
			a, seconds := a.credited(10, f)
			if !a.strikes {
				if seconds != 10 {
					t.Errorf("%s: a credit of %d s", a.name, seconds)
				}
				continue
			}
			p := policy(seconds)
			capacity, limit := p.Capacity(f.Limit()), f.Limit()
			if spent, back := (p.Ceiling(limit) - limit).Over(a.on), limit.Over(a.off); spent < capacity || back < capacity || !raises(seconds, f) {
				t.Errorf("%s on %d CPUs: spends %v and gets %v back of %v, raises %v", a.name, n, spent, back, capacity, raises(seconds, f))
			}
		}
		if _, seconds := (abuser{strikes: true}).credited(10, f); n == 2 && seconds != leastStrike {
			t.Errorf("on two CPUs a credit of %d s", seconds)
		}
	}
}

func TestAbuserNames(t *testing.T) {
	if got, want := AbuserNames(), []string{"always", "onoff", "while-raised", "in-kernel", "strikes"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := len(AllAbuserNames()), len(AbuserNames())+len(load.CallKinds()); got != want {
		t.Errorf("%d names, want %d", got, want)
	}
}

// TestUseOverWindows: the use over a window counts from its lowest sample, and an interruption within a read is no use.
func TestUseOverWindows(t *testing.T) {
	const ms = time.Millisecond
	type sample struct {
		used          unit.CPUSeconds
		before, after time.Duration
	}
	for name, c := range map[string]struct {
		samples []sample
		want    float64
	}{
		"at the limit":                       {[]sample{{0.5, 1000 * ms, 1000 * ms}, {1, 2000 * ms, 2000 * ms}}, 0},
		"from the beginning":                 {[]sample{{0.75, 1000 * ms, 1000 * ms}, {1, 2000 * ms, 2000 * ms}}, 0.25},
		"after a rest":                       {[]sample{{0, 2000 * ms, 2000 * ms}, {1.5, 3000 * ms, 3000 * ms}}, 1},
		"the most, not the last":             {[]sample{{1, 1000 * ms, 1000 * ms}, {1, 2000 * ms, 2000 * ms}}, 0.5},
		"interrupted in the read at begin":   {[]sample{{0.5, 1000 * ms, 1500 * ms}, {1, 2000 * ms, 2000 * ms}}, 0},
		"interrupted in the read at the end": {[]sample{{0, 1000 * ms, 1000 * ms}, {1, 1500 * ms, 2000 * ms}}, 0.5},
	} {
		w := &windows{limit: 0.5}
		for _, s := range c.samples {
			w.add(s.used, s.before, s.after)
		}
		if w.most != c.want || w.looks != len(c.samples) {
			t.Errorf("%s: %v in %d samples, want %v", name, w.most, w.looks, c.want)
		}
	}
}
