package unit

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	_ "github.com/berth-project/berth/test/chance" // fixes the cases of the properties
)

func TestMicros(t *testing.T) {
	for m, want := range map[Micros]time.Duration{
		0:             0,
		1:             time.Microsecond,
		100_000:       100 * time.Millisecond,
		-1:            -time.Microsecond,
		math.MaxInt64: math.MaxInt64 / 1000 * 1000,
		math.MinInt64: -(math.MaxInt64 / 1000 * 1000),
	} {
		if got := m.Duration(); got != want {
			t.Errorf("%d: %v, want %v", m, got, want)
		}
	}
	if got := Micros(250_000).Seconds(); got != 0.25 {
		t.Errorf("%v s", got)
	}
	if got := Micros(250_000).CPUSeconds(); got != 0.25 {
		t.Errorf("%v CPU-seconds", got)
	}
}

func TestRate(t *testing.T) {
	for _, c := range []struct {
		quota, period Micros
		want          CPUs
	}{
		{50_000, 100_000, 0.5},
		{400_000, 100_000, 4},
		{0, 100_000, 0},
		{NoLimit, 100_000, CPUs(math.Inf(1))},
		{50_000, 0, 0},
		{50_000, -1, 0},
	} {
		if got := Rate(c.quota, c.period); got != c.want {
			t.Errorf("Rate(%d, %d) = %v, want %v", c.quota, c.period, got, c.want)
		}
	}
}

func TestQuota(t *testing.T) {
	for _, c := range []struct {
		rate   CPUs
		period Micros
		want   Micros
	}{
		{0.5, 100_000, 50_000},
		{1.0 / 3, 100_000, 33_333},
		{2.0 / 3, 100_000, 66_667},
		{CPUs(math.Inf(1)), 100_000, NoLimit},
		{CPUs(math.NaN()), 100_000, NoLimit},
		{1e30, 100_000, NoLimit},
		{-1, 100_000, 0},
	} {
		if got := c.rate.Quota(c.period); got != c.want {
			t.Errorf("%v CPUs every %d: %d, want %d", c.rate, c.period, got, c.want)
		}
	}
}

func TestRateAndQuotaAreInverse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		quota := Micros(rapid.Int64Range(1000, 1<<40).Draw(t, "quota"))
		period := Micros(rapid.Int64Range(1000, 1_000_000).Draw(t, "period"))
		if got := Rate(quota, period).Quota(period); got != quota {
			t.Fatalf("%d every %d came back as %d", quota, period, got)
		}
	})
}

func TestCPUTime(t *testing.T) {
	if got := CPUTimeOfMicros(7); got != 7000 {
		t.Errorf("7 µs are %d ns", got)
	}
	if got := CPUTimeOfMicros(math.MaxUint64); got != math.MaxInt64 {
		t.Errorf("too many microseconds: %d", got)
	}
	if got := CPUTime(1_500_000_000).Seconds(); got != 1.5 {
		t.Errorf("%v s", got)
	}
	if got := CPUTime(5).Duration(); got != 5*time.Nanosecond {
		t.Errorf("%v", got)
	}
	if got := CPUTime(5).Since(7); got != -2 {
		t.Errorf("%d", got)
	}
}

func TestCPUSeconds(t *testing.T) {
	if got := CPUSeconds(-1.5).Time(); got != -1_500_000_000 {
		t.Errorf("%d ns", got)
	}
	if got := CPUSeconds(3).Per(2 * time.Second); got != 1.5 {
		t.Errorf("%v CPUs", got)
	}
	if got := CPUSeconds(3).Per(0); got != 0 {
		t.Errorf("over no time: %v CPUs", got)
	}
	if got := CPUs(2).Over(500 * time.Millisecond); got != 1 {
		t.Errorf("%v CPU-seconds", got)
	}
}
