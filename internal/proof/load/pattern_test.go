package load

import (
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestArrivalsAreAFunctionOfTheSeed(t *testing.T) {
	p := Pattern{Seed: 7, Rate: 10, Batch: 4}
	a, err := p.Arrivals(time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	b, _ := p.Arrivals(time.Minute)
	if !slices.Equal(a, b) {
		t.Error("the same seed gave other arrivals")
	}
	p.Seed = 8
	c, _ := p.Arrivals(time.Minute)
	if slices.Equal(a, c) {
		t.Error("another seed gave the same arrivals")
	}
	p.Seed = 7
	longer, _ := p.Arrivals(2 * time.Minute)
	if !slices.Equal(a, longer[:len(a)]) {
		t.Error("a longer run does not begin with the shorter one's arrivals")
	}
}

func TestArrivalsHaveTheAskedShape(t *testing.T) {
	p := Pattern{Seed: 1, Rate: 10, Batch: 4}
	arrivals, err := p.Arrivals(100 * time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if len(arrivals)%4 != 0 || !slices.IsSorted(arrivals) || arrivals[len(arrivals)-1] >= 100*time.Second {
		t.Errorf("%d arrivals, sorted %v, last %s", len(arrivals), slices.IsSorted(arrivals), arrivals[len(arrivals)-1])
	}
	batches := float64(len(arrivals) / 4)
	if math.Abs(batches-1000) > 5*math.Sqrt(1000) {
		t.Errorf("%.0f batches in 100 s at 10 a second", batches)
	}
	for i := 0; i < len(arrivals); i += 4 {
		if arrivals[i] != arrivals[i+3] {
			t.Fatalf("batch %d does not arrive at once", i/4)
		}
	}
}

func TestRegularArrivals(t *testing.T) {
	got, err := Pattern{Rate: 2, Batch: 2, Regular: true}.Arrivals(1600 * time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	ms := time.Millisecond
	want := []time.Duration{500 * ms, 500 * ms, 1000 * ms, 1000 * ms, 1500 * ms, 1500 * ms}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestArrivalsRefuse(t *testing.T) {
	for name, c := range map[string]struct {
		p    Pattern
		d    time.Duration
		want error
	}{
		"no rate":   {Pattern{Batch: 1}, time.Second, ErrBadLoad},
		"no batch":  {Pattern{Rate: 1}, time.Second, ErrBadLoad},
		"no time":   {Pattern{Rate: 1, Batch: 1}, 0, ErrBadLoad},
		"too long":  {Pattern{Rate: 1, Batch: 1}, 2 * time.Hour, ErrTooMuch},
		"too many":  {Pattern{Rate: 1e6, Batch: 10}, time.Minute, ErrTooMuch},
		"a NaN-ish": {Pattern{Rate: math.Inf(1), Batch: 1}, time.Minute, ErrTooMuch},
	} {
		if _, err := c.p.Arrivals(c.d); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}
