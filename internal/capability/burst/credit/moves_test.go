package credit_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/berth-project/berth/internal/capability/burst/credit"
)

// TestMovesAnHour checks how often the law moves a quota in an hour, with a credit period of 60 s. A server uses three
// CPUs at a time, in steps of 20 ms at random; an abuser uses them only while the quota is raised. A runtime that follows
// the quota changes its number of threads at most as often.
func TestMovesAnHour(t *testing.T) {
	server := func(mean float64) demand {
		rng := rand.New(rand.NewPCG(1, 2))
		busy, until := false, int64(0)
		return func(s *sim, want []bool) {
			if s.now >= until {
				busy, until = rng.Float64() < mean/3, s.now+int64(20*time.Millisecond)
			}
			for i := range want {
				want[i] = busy && i < 3
			}
		}
	}
	for name, c := range map[string]struct {
		work demand
		most int
	}{
		"0.5 of the limit": {server(0.5), 0},
		"0.9 of the limit": {server(0.9), 0},
		"the limit":        {server(1), 600},
		"1.1 of the limit": {server(1.1), 600},
		"1.5 of the limit": {server(1.5), 600},
		"3 of the limit":   {server(3), 600},
		"while raised":     {whileRaised(3), 600},
	} {
		t.Run(name, func(t *testing.T) {
			p := credit.Policy{QuotaBurst: true, QuotaPercent: 300, PeriodSeconds: 60}
			f := facts{Period: 100_000, LimitQuota: 100_000, CPUs: 4, Slice: 5000, Tick: 4 * time.Millisecond}
			s := newSim(p, f, rand.New(rand.NewPCG(3, 4)))
			s.run(time.Minute, c.work) // The first raise is none of an hour later.
			before := s.writes
			s.run(time.Hour, c.work)
			moves := s.writes - before
			t.Logf("%d moves an hour, mean use %.2f", moves, float64(s.usage)/float64(s.now))
			if moves > c.most {
				t.Errorf("%d moves an hour, want at most %d", moves, c.most)
			}
		})
	}
}
