package cli

import (
	"testing"

	"github.com/berth-project/berth/internal/proof/bench"
	"github.com/berth-project/berth/internal/proof/load"
)

// TestPinJudgesP99 checks that the default load has enough requests for the goal of p99, which wants 10,000 an arm, on
// machines of any size. A tenth more leaves room for the seed.
func TestPinJudgesP99(t *testing.T) {
	for _, cpus := range []int{2, 3, 8, 512} {
		o := bench.PinOptions{LoadOptions: bench.LoadOptions{Pattern: load.Pattern{Batch: 1, Seed: 1}, Work: bench.DefaultVictimWork}}
		o.Machine.CPUs = cpus
		if err := fillPin(newBenchPin(&globals{}, new(int)), &o); err != nil {
			t.Fatal(err)
		}
		requests := 0
		for range o.Repetitions {
			arrivals, err := o.Pattern.Arrivals(o.Duration)
			if err != nil {
				t.Fatal(err)
			}
			requests += len(arrivals)
			o.Pattern.Seed++
		}
		if requests < 11_000 {
			t.Errorf("%d CPUs: %d requests an arm", cpus, requests)
		}
	}
}
