package credit_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-project/berth/internal/capability/burst/credit"
	"github.com/berth-project/berth/internal/value/unit"
)

func TestApart(t *testing.T) {
	for _, c := range []struct{ own, quota, period, want unit.Micros }{
		{50000, 300000, 100000, 299998},
		{50000, 299998, 100000, 299998}, // the former answer
		{50000, 300001, 100000, 299998},
		{50000, 299999, 100000, 299998},
		{50000, 300002, 100000, 300002}, // not a limit's
		{100000, 600000, 200000, 599998},
		{2500, 15000, 5000, 14998},
		{2500, 15004, 5000, 15003},
		{99999, 100000, 100000, 100000}, // it would be below its own quota
		{99998, 100000, 100000, 100000}, // it would equal its own quota
		{2000, 12000, 4000, 12000},      // with this period, a limit's quota is a multiple of 4 µs
		{1000, 6000, 1000, 6000},
	} {
		if got := credit.Apart(c.own, c.quota, c.period); got != c.want {
			t.Errorf("above %d: %d of %d is %d, want %d", c.own, c.quota, c.period, got, c.want)
		}
	}
}

// A raised quota must not be a multiple of 1/1000 CPU, because the kubelet and systemd round limits to that. The result
// is never more than the request, at most slightly less, and stable if it is computed again.
func TestApartIsNoLimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		period := unit.Micros(rapid.OneOf(
			rapid.SampledFrom([]int64{1000, 5000, 10_000, 100_000, 200_000, 1_000_000}), rapid.Int64Range(1000, 1_000_000),
		).Draw(t, "period"))
		own := unit.Micros(rapid.Int64Range(1000, 1<<30).Draw(t, "own"))
		quota := own + unit.Micros(rapid.Int64Range(1, 1<<30).Draw(t, "more"))
		if rapid.Bool().Draw(t, "near a limit") {
			quota += unit.Micros(rapid.Int64Range(-2, 2).Draw(t, "beside it")) - quota*1000%period/1000
			quota = max(quota, own+1)
		}
		got := credit.Apart(own, quota, period)
		if got > quota || got < quota-4 || got <= own {
			t.Fatalf("%d above %d", got, own)
		}
		if again := credit.Apart(own, got, period); again != got {
			t.Fatalf("%d, and then %d", got, again)
		}
		if period < 5000 || quota <= own+4 {
			return
		}
		for milli := got*1000/period - 1; milli <= got*1000/period+2; milli++ {
			kubelet := milli * period / 1000
			runtime := unit.MilliCPUs(int64(milli)).Quota(period)
			systemd := (milli + 9) / 10 * 10_000 * period / 1_000_000
			for _, limit := range []unit.Micros{kubelet, runtime, systemd} {
				if d := got - limit; -1 <= d && d <= 1 {
					t.Fatalf("%d, and %dm is %d", got, milli, limit)
				}
			}
		}
	})
}
