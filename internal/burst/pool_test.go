package burst_test

import (
	"math"
	"testing"
	"time"

	"github.com/berth-project/berth/internal/burst"
	"github.com/berth-project/berth/internal/unit"
)

// seconds is CPU time.
func seconds(n float64) unit.CPUTime { return unit.CPUSeconds(n).Time() }

// The use of a pool leaves out what its own groups did not use, and is never negative.
func TestPoolSample(t *testing.T) {
	p := burst.Pool{Threshold: 0.5, CPUs: 4}
	if !p.Unknown() || !math.IsNaN(p.Use()) {
		t.Error("known before the first sample")
	}
	p.Sample(10*time.Second, seconds(1000), 0)
	if !p.Unknown() {
		t.Error("known after one sample")
	}
	for _, c := range []struct {
		at          time.Duration
		busy, apart float64
		want        float64
	}{
		{11 * time.Second, 1003, 1, 0.5},
		{12 * time.Second, 1004, 3, 0.25}, // more apart than was used counts as nothing
		{12 * time.Second, 1009, 0, 0.25}, // no time has passed
	} {
		p.Sample(c.at, seconds(c.busy), seconds(c.apart))
		if got := p.Use(); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("use %v at %s, want %v", got, c.at, c.want)
		}
	}
}

// used returns a pool of 8 CPUs that were used to this share.
func used(share, threshold float64) *burst.Pool {
	p := &burst.Pool{Threshold: threshold, CPUs: 8}
	p.Sample(time.Second, 0, 0)
	p.Sample(2*time.Second, seconds(8*share), 0)
	return p
}

func TestPoolDivides(t *testing.T) {
	for _, c := range []struct {
		what      string
		pool      *burst.Pool
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
		{"not known yet: what stands may stand", &burst.Pool{Threshold: 0.5, CPUs: 8}, 150000, true, 1.5, false},
		{"not known yet: nothing rises", &burst.Pool{Threshold: 0.5, CPUs: 8}, 50000, true, 0.5, false},
		{"not known yet: the limit is not lowered", &burst.Pool{Threshold: 0.5, CPUs: 8}, 20000, true, 0.5, false},
	} {
		g := container("app", c.standing)
		g.Policy.Quota = c.quota
		c.pool.Divide(time.Minute, []*burst.Group{g})
		if math.Abs(float64(g.Facts.Ceiling-c.want)) > 1e-9 || g.MustLower() != c.mustLower {
			t.Errorf("%s: ceiling %v, want %v; must lower %v", c.what, g.Facts.Ceiling, c.want, g.MustLower())
		}
	}
}
