package burst_test

import (
	"math"
	"testing"
	"time"

	"github.com/berth-project/berth/internal/capability/burst"
	"github.com/berth-project/berth/internal/capability/burst/headroom"
	"github.com/berth-project/berth/internal/value/unit"
)

// seconds returns CPU time.
func seconds(n float64) unit.CPUTime { return unit.CPUSeconds(n).Time() }

// used returns a pool of 8 CPUs with this share of use.
func used(share, threshold float64) *headroom.Pool {
	p := &headroom.Pool{Threshold: threshold, CPUs: 8}
	p.Sample(time.Second, 0, 0)
	p.Sample(2*time.Second, seconds(8*share), 0)
	return p
}

func TestPoolDivides(t *testing.T) {
	for _, c := range []struct {
		what      string
		pool      *headroom.Pool
		standing  unit.Micros
		quota     bool
		want      unit.CPUs
		mustLower bool
	}{
		{"below the threshold", used(0.4, 0.5), 50000, true, 1.5, false},
		{"little is left", used(0.9375, 0.5), 150000, true, 1, true},
		{"nothing is left", used(1, 0.5), 150000, true, 0.5, true},
		{"a threshold of 100 % is no guard", used(1, 1), 150000, true, 1.5, false},
		{"a policy that moves no quota", used(0.4, 0.5), 50000, false, 0.5, false},
		{"not known yet: what stands may stand", &headroom.Pool{Threshold: 0.5, CPUs: 8}, 150000, true, 1.5, false},
		{"not known yet: nothing rises", &headroom.Pool{Threshold: 0.5, CPUs: 8}, 50000, true, 0.5, false},
		{"not known yet: the limit is not lowered", &headroom.Pool{Threshold: 0.5, CPUs: 8}, 20000, true, 0.5, false},
	} {
		g := container("app", c.standing)
		g.Policy.QuotaBurst = c.quota
		burst.Divide(c.pool, time.Minute, []*burst.Group{g})
		if math.Abs(float64(g.Facts.Ceiling-c.want)) > 1e-9 || g.MustLower() != c.mustLower {
			t.Errorf("%s: ceiling %v, want %v; must lower %v", c.what, g.Facts.Ceiling, c.want, g.MustLower())
		}
	}
}

// TestDivideKeepsNothingForThoseThatAreNeverRaised checks that the node's remaining CPU time is not reserved for groups
// that are never raised, nor beyond what the groups above permit.
func TestDivideKeepsNothingForThoseThatAreNeverRaised(t *testing.T) {
	for name, c := range map[string]struct {
		change func(g *burst.Group)
		want   unit.CPUs
	}{
		"one that bursts":            {func(*burst.Group) {}, 0.75},
		"a credit that pays nothing": {func(g *burst.Group) { g.Policy.PeriodSeconds = 0 }, 1},
		"a limit of all its CPUs":    {func(g *burst.Group) { g.Facts.LimitQuota, g.Facts.CPUs = 100000, 1 }, 1},
		"a group above with no more": {func(g *burst.Group) { g.Facts.Cap = 0.5 }, 1},
		"a group above with little":  {func(g *burst.Group) { g.Facts.Cap = 0.6 }, 0.90002},
		"a BPF scheduler":            {func(g *burst.Group) { g.Facts.SchedExt = "scx_rusty" }, 1},
	} {
		app, other := container("app", 50000), container("other", 50000)
		c.change(other)
		burst.Divide(used(0.9375, 0.5), time.Minute, []*burst.Group{other, app})
		if got := app.Facts.Ceiling; math.Abs(float64(got-c.want)) > 1e-9 {
			t.Errorf("beside %s: ceiling %v, want %v", name, got, c.want)
		}
	}
}

// TestPoolRemembers runs eight bursting neighbors beside a group on two CPUs, with a mean use of 45 %, and above the
// threshold in each burst. No quota may move more than once in 20 s.
func TestPoolRemembers(t *testing.T) {
	const length = 10 * time.Minute
	p := &headroom.Pool{Threshold: 0.5, CPUs: 2}
	groups := []*burst.Group{container("app", 50000)}
	for range 8 {
		groups = append(groups, container("neighbour", 50000))
	}
	moves, busy, before := 0, 0.0, unit.CPUs(0)
	for now := time.Second; now < length; now += time.Second {
		use := 0.3
		if now%(24*time.Second) >= 12*time.Second {
			use = 0.6
		}
		busy += 2 * use
		p.Sample(now, seconds(busy), 0)
		burst.Divide(p, now, groups)
		if got := groups[0].Facts.Ceiling; got != before {
			moves, before = moves+1, got
		}
	}
	if most := int(length / (20 * time.Second)); moves > most {
		t.Errorf("%d moves in %v, want at most %d", moves, length, most)
	}
}
