package evidence

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// host is a synthetic host: slow drift, a daily curve, heavy shocks, a job that runs
// now and then, and the noise of one block.
type host struct {
	random *rand.Rand
	noise  float64 // standard deviation of the difference of two adjacent blocks
	rough  bool
	slow   float64
	block  int
}

func newHost(seed uint64, noise float64, rough bool) *host {
	return &host{random: rand.New(rand.NewPCG(seed, 13)), noise: noise / math.Sqrt2, rough: rough}
}

// next measures one block.
func (h *host) next() float64 {
	h.block++
	x := h.noise * h.random.NormFloat64()
	if h.rough {
		h.slow = 0.8*h.slow + 0.6*h.noise*h.random.NormFloat64()
		x += h.slow + 0.1*math.Sin(float64(h.block)/200)
		if h.random.Float64() < 0.05 {
			x += 4 * h.noise * h.random.ExpFloat64()
		}
		if h.block%2 == 0 { // a job in step with the blocks
			x += 2 * h.noise
		}
	}
	return 100 * math.Exp(x)
}

// run makes a trial of a change that multiplies the value by effect.
func (h *host) run(t *testing.T, rule Rule, seed uint64, effect float64) Result {
	t.Helper()
	trial, err := New(rule)
	if err != nil {
		t.Fatal(err)
	}
	for pair := 0; ; pair++ {
		first, second := h.next(), h.next()
		p := Pair{With: second * effect, Without: first}
		if changeFirst, _ := Schedule(seed, pair); changeFirst {
			p = Pair{With: first * effect, Without: second}
		}
		if err := trial.Add(p); err != nil {
			t.Fatal(err)
		}
		if trial.Verdict() != Undecided {
			return trial.Result()
		}
	}
}

// TestNothingIsRarelyBetter has a change that does nothing called better in at most
// 1 % of 1,000 trials on hosts that drift, shake and run jobs.
func TestNothingIsRarelyBetter(t *testing.T) {
	for _, rough := range []bool{false, true} {
		verdicts := map[Verdict]int{}
		for seed := range uint64(1000) {
			verdicts[newHost(seed, 0.05, rough).run(t, Standard(), seed, 1).Verdict]++
		}
		t.Logf("rough %v: %v", rough, verdicts)
		if verdicts[Better] > 10 {
			t.Errorf("rough %v: %d of 1,000 trials called nothing better", rough, verdicts[Better])
		}
	}
}

func TestTenPerCentIsFound(t *testing.T) {
	for name, effect := range map[string]float64{"lower": 0.9, "higher": 1 / 0.9} {
		rule, found, pairs := Standard(), 0, []int{}
		rule.HigherIsBetter = name == "higher"
		missed := 0
		for seed := range uint64(400) {
			r := newHost(seed, 0.03, false).run(t, rule, seed, effect)
			if r.Verdict == Better {
				found++
				pairs = append(pairs, r.Pairs)
			}
			if r.Low > effect || r.High < effect || r.Low > r.Ratio || r.Ratio > r.High {
				missed++
			}
		}
		slices.Sort(pairs)
		median := pairs[len(pairs)/2]
		t.Logf("%s: found %d of 400, median %d pairs, interval missed %d", name, found, median, missed)
		if found < 380 || median > 12 || missed > 20 {
			t.Errorf("%s: found %d of 400, median %d pairs, interval missed %d", name, found, median, missed)
		}
	}
}

func TestHarmIsStopped(t *testing.T) {
	worse := 0
	for seed := range uint64(200) {
		r := newHost(seed, 0.05, false).run(t, Standard(), seed, 1.1)
		if r.Verdict == Better {
			t.Errorf("seed %d: 10 %% worse was called better: %+v", seed, r)
		}
		if r.Verdict == Worse {
			worse++
		}
	}
	if worse < 190 {
		t.Errorf("10 %% worse was called worse in %d of 200 trials", worse)
	}
}

// TestProcessIsFair enumerates every sequence of coins: whatever the sizes of the
// differences, the mean of the process is 1 and its tail is bounded at every look.
func TestProcessIsFair(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{1, 2, 7, 12} {
		sizes := make([]float64, n)
		for i := range sizes {
			sizes[i] = math.Exp(3 * random.NormFloat64())
		}
		if n == 7 {
			sizes[2], sizes[3], sizes[4] = 0, 0, sizes[1]
		}
		var sum float64
		reached := map[float64]int{3: 0, 20: 0, 100: 0}
		for coins := range 1 << n {
			d := slices.Clone(sizes)
			highest := 0.0
			for i := range d {
				if coins>>i&1 == 1 {
					d[i] = -d[i]
				}
				e, _ := processes(d[:i+1], 0)
				highest = max(highest, e)
			}
			e, mirrored := processes(d, 0)
			if e < 0 || mirrored < 0 {
				t.Fatalf("a process below 0: %v, %v", e, mirrored)
			}
			sum += e
			for limit := range reached {
				if highest >= limit {
					reached[limit]++
				}
			}
		}
		if mean := sum / float64(int(1)<<n); math.Abs(mean-1) > 1e-9 {
			t.Errorf("%d pairs: mean %v", n, mean)
		}
		for limit, times := range reached {
			if share := float64(times) / float64(int(1)<<n); share > 1/limit {
				t.Errorf("%d pairs: %v is reached with probability %v", n, limit, share)
			}
		}
	}
}

func TestBadValuesAreRefused(t *testing.T) {
	trial, err := New(Standard())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []Pair{{0, 1}, {1, 0}, {-1, -1}, {math.NaN(), 1}, {math.Inf(1), 1}, {math.Inf(1), math.Inf(1)}} {
		if err := trial.Add(p); !errors.Is(err, ErrValue) {
			t.Errorf("%v: %v", p, err)
		}
	}
	if r := trial.Result(); r != (Result{Gain: 1, Harm: 1}) {
		t.Errorf("a trial without pairs says %+v", r)
	}
	if err := trial.Add(Pair{1, 1}); err != nil {
		t.Fatal(err)
	}
	if r := trial.Result(); r.Ratio != 1 || r.Low != 0 || r.High != 0 {
		t.Errorf("one pair says %+v", r)
	}
	bad := Standard()
	bad.Candidates = 0
	if _, err := New(bad); !errors.Is(err, ErrValue) {
		t.Errorf("a rule without candidates: %v", err)
	}
}

func TestScheduleIsFairAndFixed(t *testing.T) {
	heads := 0
	for pair := range 10_000 {
		first, stretch := Schedule(7, pair)
		if again, _ := Schedule(7, pair); again != first || stretch < 0.8 || stretch >= 1.2 {
			t.Fatalf("pair %d: %v, %v", pair, first, stretch)
		}
		if first {
			heads++
		}
	}
	if heads < 4_800 || heads > 5_200 {
		t.Errorf("%d of 10,000 coins fell on one side", heads)
	}
}

func BenchmarkResult(b *testing.B) {
	h, d := newHost(1, 0.05, true), []float64{}
	for range 60 {
		d = append(d, math.Log(h.next()/h.next()))
	}
	trial := Trial{rule: Standard(), d: d}
	for b.Loop() {
		_ = trial.Result()
	}
}
