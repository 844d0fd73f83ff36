package bench

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/berth-project/berth/internal/proof/load"
)

func TestRepetitionsByNoise(t *testing.T) {
	for half, want := range map[float64]int{0: 3, 0.01: 3, 0.025: 3, 0.0251: 4, 0.05: 12, 0.06: 18, 0.0646: 20, 0.0647: 20, 0.3: 20} {
		if got := repetitionsByNoise(&load.Ratio{Estimate: 1, Low: 1 - half, High: 1 + half}, 3); got != want {
			t.Errorf("half width %v: %d repetitions, want %d", half, got, want)
		}
	}
	for half, want := range map[float64]int{0.025: 12, 0.026: 13, 0.05: 20} {
		if got := repetitionsByNoise(&load.Ratio{Estimate: 1, Low: 1 - half, High: 1 + half}, 12); got != want {
			t.Errorf("half width %v of twelve: %d repetitions, want %d", half, got, want)
		}
	}
	if got := repetitionsByNoise(nil, 3); got != 3 {
		t.Errorf("unknown noise: %d repetitions", got)
	}
}

// noisyOptions simulates equal arms, of which every stretch is slower or faster than it should be by the deviation sd.
func noisyOptions(seed uint64, sd float64) BurstOptions {
	random := rand.New(rand.NewPCG(seed, 1))
	o := savedOptions()
	o.ByNoise, o.Repetitions, o.Duration, o.Limit = true, 1, 50_200*time.Millisecond, 0.5
	o.Arms = []string{Unlimited, Berth, Unlimited2}
	o.Pattern = load.Pattern{Seed: seed, Rate: 5, Batch: 40, Regular: true}
	o.Run = func(_ context.Context, a Arm) (Outcome, error) {
		list := make([]load.Sample, len(a.Arrivals))
		slow := 0.0
		for i, at := range a.Arrivals {
			if i%1000 == 0 {
				slow = max(1+sd*random.NormFloat64(), 0.2)
			}
			list[i] = load.Sample{Intended: at, Latency: time.Millisecond, Status: 204}
			if i%50 == 0 {
				list[i].Latency = time.Duration(slow * float64(40*time.Millisecond))
			}
		}
		return Outcome{Samples: list, Elapsed: o.Duration}, nil
	}
	return o
}

// TestAutomaticRepetitions: a quiet machine has three repetitions, and a noisy one as many as its noise asks for, whatever
// the judged arm does. With a noise that twenty do not suffice for, there is no verdict.
func TestAutomaticRepetitions(t *testing.T) {
	for name, c := range map[string]struct {
		sd          float64
		least, most int
		verdict     Verdict
	}{
		"quiet": {0.002, 3, 3, Met},
		"some":  {0.05, 4, 19, Met},
		"loud":  {0.3, 20, 20, Open},
	} {
		ran := map[string]int{}
		o := noisyOptions(1, c.sd)
		run := o.Run
		o.Run = func(ctx context.Context, a Arm) (Outcome, error) {
			ran[a.Name]++
			return run(ctx, a)
		}
		r, err := RunBurst(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		if r.Repetitions < c.least || r.Repetitions > c.most || ran[Berth] != r.Repetitions || len(r.Noise) != r.Repetitions {
			t.Errorf("%s: %d repetitions, arms ran %v", name, r.Repetitions, ran)
		}
		if !strings.HasPrefix(r.Notes[0], "repetitions by noise: ") {
			t.Errorf("%s: %q", name, r.Notes)
		}
		if g := judge(r)[0]; g.Verdict != c.verdict {
			t.Errorf("%s: %+v", name, g)
		}
	}
}

// TestEqualArmsAreRarelyMissed: of 200 runs of equal arms, at most one in twenty misses the goal.
func TestEqualArmsAreRarelyMissed(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: make test runs it")
	}
	missed, sum := 0, 0
	for seed := range uint64(200) {
		o := noisyOptions(seed+1, 0.05)
		o.Progress = func(string) {}
		r := &Report{}
		repetitions, err := o.repeat(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		r.Repetitions = len(repetitions)
		sum += r.Repetitions
		for _, name := range []string{Berth, Unlimited2} {
			r.Ratios = append(r.Ratios, RatioLine{
				Arm: name, Reference: Unlimited, Quantile: "p99", Window: "all", Median: medianOf(repetitions, name, Unlimited, 0.99),
			})
			r.Arms = append(r.Arms, ArmSummary{Name: name, Served: Served{Requests: 10_000 * r.Repetitions}})
		}
		if ratioGoal(r, "", r.Ratios[0], goalP99).Verdict == Missed {
			missed++
		}
	}
	t.Logf("%d of 200 missed, %.1f repetitions on average", missed, float64(sum)/200)
	if missed > 10 {
		t.Errorf("%d of 200 runs of equal arms missed the goal", missed)
	}
}
