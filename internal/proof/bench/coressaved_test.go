package bench

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/berth-project/berth/internal/proof/load"
	"github.com/berth-project/berth/internal/value/unit"
	_ "github.com/berth-project/berth/test/chance" // fixes the cases of the properties
)

// TestSmallest compares the search with a walk through all limits.
func TestSmallest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		machine := unit.CPUs(rapid.IntRange(1, 256).Draw(t, "machine"))
		mean := unit.CPUs(rapid.Float64Range(0, 300).Draw(t, "mean"))
		enough := unit.CPUs(rapid.Float64Range(0, 300).Draw(t, "enough"))
		limits, asked := limitsAbove(machine, mean), 0
		want := machine
		for i, limit := range limits {
			if limit < mean && limit != machine || i > 0 && limit <= limits[i-1] {
				t.Fatalf("limits %v of a machine of %v above %v", limits, machine, mean)
			}
			if limit >= enough {
				want = min(want, limit)
			}
		}
		got, err := smallest(limits, func(limit unit.CPUs) (bool, error) {
			asked++
			return limit >= enough, nil
		})
		if err != nil || got != want {
			t.Fatalf("smallest of %v from %v on: %v, %v, want %v", limits, enough, got, err, want)
		}
		if asked > 6 {
			t.Fatalf("asked %d times for %d limits", asked, len(limits))
		}
	})
}

// servers simulates arms. The p99 of the arm with only a quota equals the unlimited p99 from a limit of 1.2 CPUs on.
// The p99 with Berth equals it at any limit that the use of 0.3 CPUs does not exceed.
func servers(_ context.Context, a Arm) (Outcome, error) {
	slow := 40 * time.Millisecond
	if a.Name == QuotaOnly && a.Limit < 1.2 {
		slow *= 3
	}
	return Outcome{Samples: samples(len(a.Arrivals), 10*time.Second, 10*time.Millisecond, slow), CPU: 3 * time.Second, Elapsed: 10 * time.Second}, nil
}

func savedOptions() BurstOptions {
	return BurstOptions{
		LoadOptions: LoadOptions{Options: Options{Machine: Machine{CPUs: 2}, Repetitions: 3}, Pattern: load.Pattern{Seed: 1, Rate: 5, Batch: 40}, Duration: 10 * time.Second},
		Run:         servers,
	}
}

func TestCoresSaved(t *testing.T) {
	r, err := RunCoresSaved(t.Context(), savedOptions())
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Repetitions) != 3 || r.QuotaOnly < 1.2 || r.QuotaOnly > 1.2*1.2 || r.Berth < 0.3 || r.Berth > 0.3*1.2 || r.Goals[0].Verdict != Met {
		t.Errorf("%+v", r)
	}
	var out bytes.Buffer
	err = WriteSavedTable(&out, r)
	for _, want := range []string{"met", "quota only", "noise of this machine: p99 of two arms without a limit 1.000 (1.000..1.000)"} {
		if err != nil || !strings.Contains(out.String(), want) {
			t.Errorf("%v, want %q in\n%s", err, want, out.String())
		}
	}
}

// If two unlimited arms differ, there is no verdict.
func TestCoresSavedOnNoisyMachine(t *testing.T) {
	o := savedOptions()
	o.Run = func(ctx context.Context, a Arm) (Outcome, error) {
		outcome, err := servers(ctx, a)
		if a.Name == Unlimited2 {
			outcome.Samples = samples(len(a.Arrivals), 10*time.Second, 10*time.Millisecond, 60*time.Millisecond)
		}
		return outcome, err
	}
	r, err := RunCoresSaved(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if g := r.Goals[0]; g.Verdict != Open || !strings.Contains(g.Measured, "too noisy") || r.Noise < 1.4 {
		t.Errorf("%+v, noise %.3f", g, r.Noise)
	}
}

// TestCoresSavedDisturbed: what disturbs one unlimited arm, or a third of an arm, does not change the limits. No arm runs
// twice.
func TestCoresSavedDisturbed(t *testing.T) {
	slower := func(list []load.Sample) {
		for i := range list {
			list[i].Latency *= 5
		}
	}
	for name, disturb := range map[string]func(Arm, Outcome){
		"the first unlimited arm": func(a Arm, o Outcome) {
			if a.Name == Unlimited {
				slower(o.Samples)
			}
		},
		"the second unlimited arm": func(a Arm, o Outcome) {
			if a.Name == Unlimited2 {
				slower(o.Samples)
			}
		},
		"a third of each arm with Berth": func(a Arm, o Outcome) {
			if a.Name == Berth {
				slower(o.Samples[:len(o.Samples)/3])
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := savedOptions()
			o.Repetitions, o.Duration = 1, 40*time.Second
			ran := map[limited]int{}
			o.Run = func(ctx context.Context, a Arm) (Outcome, error) {
				outcome, err := servers(ctx, a)
				disturb(a, outcome)
				ran[limited{a.Name, a.Limit}]++
				return outcome, err
			}
			r, err := RunCoresSaved(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			if r.QuotaOnly < 1.2 || r.QuotaOnly > 1.2*1.2 || r.Berth < 0.3 || r.Berth > 0.3*1.2 {
				t.Errorf("%+v", r)
			}
			for arm, n := range ran {
				if n != 1 {
					t.Errorf("%+v ran %d times", arm, n)
				}
			}
			if n := len(r.Repetitions[0].Probes); n != len(ran)-2 {
				t.Errorf("%d probes of %d arms", n, len(ran))
			}
		})
	}
}

// TestCoresSavedGoal: the upper end of the interval over repetitions decides, and needs three of them.
func TestCoresSavedGoal(t *testing.T) {
	for name, c := range map[string]struct {
		repetitions int
		ratio       *load.Ratio
		want        Verdict
	}{
		"all of the interval below":  {3, &load.Ratio{Estimate: 0.4, Low: 0.3, High: 0.5}, Met},
		"some of the interval above": {3, &load.Ratio{Estimate: 0.4, Low: 0.3, High: 0.51}, Missed},
		"two repetitions":            {2, &load.Ratio{Estimate: 0.4, Low: 0.4, High: 0.4}, Open},
		"one repetition":             {1, nil, Open},
	} {
		r := &SavedReport{Repetitions: make([]Saved, c.repetitions), Ratio: c.ratio, Noise: 1}
		if g := r.goal(); g.Verdict != c.want {
			t.Errorf("%s: %+v", name, g)
		}
	}
}

// TestCoresSavedFails: the error gives the reason if an arm cannot be judged or run.
func TestCoresSavedFails(t *testing.T) {
	o := savedOptions()
	o.Pattern.Batch = 1
	if _, err := RunCoresSaved(t.Context(), o); !errors.Is(err, errNoP99) {
		t.Errorf("50 requests: %v", err)
	}
	o = savedOptions()
	o.Run = func(ctx context.Context, a Arm) (Outcome, error) {
		if a.Name == Berth {
			return Outcome{}, ErrNotRaised
		}
		return servers(ctx, a)
	}
	if _, err := RunCoresSaved(t.Context(), o); !errors.Is(err, ErrNotRaised) {
		t.Errorf("an arm that fails: %v", err)
	}
}
