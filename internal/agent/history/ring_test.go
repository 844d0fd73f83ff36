package history

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/berth-project/berth/internal/capability"
	"github.com/berth-project/berth/internal/value/unit"
)

var start = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

// naive stores each sample of each workload unchanged.
type naive struct {
	times   []int64
	samples []map[string][measures]float64
	before  map[string]capability.Moment
	seen    map[string]int
}

// add has the parameters of ring.add.
func (n *naive) add(at time.Time, all []capability.Moment) {
	now := map[string][measures]float64{}
	for _, m := range all {
		s := [measures]float64{m.Limit, m.Now, math.NaN(), m.Credit, m.Capacity, math.NaN(), math.NaN(), math.NaN()}
		b, known := n.before[m.Workload]
		if known = known && len(n.times)/samples-n.seen[m.Workload]/samples < 2; known { // otherwise it was forgotten
			if m.Used >= b.Used && m.At > b.At {
				s[used] = float64(m.Used-b.Used) / float64(m.At-b.At)
			}
			if m.Periods >= b.Periods && m.Throttled >= b.Throttled && m.Above >= b.Above {
				s[periods], s[throttled], s[above] = float64(m.Periods-b.Periods), float64(m.Throttled-b.Throttled), float64(m.Above-b.Above)
			}
		}
		now[m.Workload], n.before[m.Workload], n.seen[m.Workload] = s, m, len(n.times)
	}
	n.times, n.samples = append(n.times, at.UnixMilli()), append(n.samples, now)
}

// of returns the last samples of a measure.
func (n *naive) of(name string, measure, most int) Column {
	all := Column{}
	for _, s := range n.samples[max(0, len(n.samples)-most):] {
		if v, known := s[name]; known {
			all = append(all, v[measure])
		} else {
			all = append(all, math.NaN())
		}
	}
	return all
}

// workload generates the moments of one workload.
type workload struct {
	moment                          capability.Moment
	used, ran, throttled, above, up int
}

// draw changes the behavior of a workload.
func (w *workload) draw(t *rapid.T) {
	if rapid.IntRange(0, 9).Draw(t, "anew") == 0 {
		w.moment.Used, w.moment.Periods, w.moment.Throttled, w.moment.Above = 0, 0, 0, 0
	}
	amount := rapid.SampledFrom([]float64{-1, 0, 0.5, 2.125, 1e6, 1e12})
	w.moment.Limit, w.moment.Now, w.moment.Credit, w.moment.Capacity = amount.Draw(t, "limit"), amount.Draw(t, "now"), amount.Draw(t, "credit"), amount.Draw(t, "capacity")
	count := rapid.SampledFrom([]int{0, 1, 10, 100_000})
	w.used, w.ran, w.throttled, w.above = rapid.IntRange(0, 4_000_000).Draw(t, "used"), count.Draw(t, "ran"), count.Draw(t, "throttled"), count.Draw(t, "above")
	w.up = rapid.SampledFrom([]int{0, 0, 1, 1000}).Draw(t, "up")
}

// next advances by a second.
func (w *workload) next(second int) capability.Moment {
	m := &w.moment
	m.At = time.Hour + time.Duration(second)*time.Second
	m.Used += unit.CPUTime(w.used * 1000)
	m.Periods, m.Throttled, m.Above = m.Periods+uint64(w.ran), m.Throttled+uint64(w.throttled), m.Above+uint64(w.above)
	w.used += w.up
	return *m
}

// TestRingIsTheEndOfAList checks that a ring has the same content as the end of a list of all samples.
func TestRingIsTheEndOfAList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, n := newRing(mostBytes), &naive{before: map[string]capability.Moment{}, seen: map[string]int{}}
		all := map[string]*workload{}
		second := 0
		for range rapid.IntRange(0, 6).Draw(t, "spells") {
			names := rapid.SliceOfDistinct(rapid.SampledFrom([]string{node, "a", "shop/web-0/app", "z"}), rapid.ID[string]).Draw(t, "names")
			for _, name := range names {
				if all[name] == nil {
					all[name] = &workload{moment: capability.Moment{Quota: capability.Quota{Workload: name}}}
				}
				all[name].draw(t)
			}
			for range rapid.SampledFrom([]int{1, 2, 59, 60, 61, 250}).Draw(t, "seconds") {
				var moments []capability.Moment
				for _, name := range names {
					moments = append(moments, all[name].next(second))
				}
				at := start.Add(time.Duration(second) * time.Second)
				r.add(at, moments)
				n.add(at, moments)
				second++
			}
		}
		compare(t, r, n, rapid.IntRange(1, Kept).Draw(t, "most"))
	})
}

// compare compares a ring with the list.
func compare(t *rapid.T, r *ring, n *naive, most int) {
	recent, err := r.recent(most)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "times", n.times[max(0, len(n.times)-most):], recent.Times)
	same(t, "node", n.of(node, used, most), recent.Node, roundedIf(true))
	for _, name := range []string{"a", "shop/web-0/app", "z"} {
		i := slices.IndexFunc(recent.Workloads, func(w Workload) bool { return w.Name == name })
		p, found, err := (&History{ring: r}).Of(name, most, 1)
		if err != nil {
			t.Fatal(err)
		}
		known := slices.ContainsFunc(n.of(name, limit, most), func(v float64) bool { return !math.IsNaN(v) })
		if known && (!found || i < 0) {
			t.Fatalf("%s: found %t, place %d", name, found, i)
		}
		if found {
			for measure, column := range p.Workloads[0].columns() {
				same(t, fmt.Sprint(name, " measure ", measure), n.of(name, measure, most), *column, roundedIf(measure == used))
			}
		}
		if i >= 0 {
			same(t, name+" throttled", n.of(name, throttled, most), recent.Workloads[i].Throttled)
		}
	}
}

// roundedIf compares exact values of the list with the ring's thousandths; a value between two of them may be rounded
// either way.
func roundedIf(is bool) cmp.Option {
	if !is {
		return cmp.Options{}
	}
	const half = 0.5/thousandths + 1e-9
	return cmpopts.EquateApprox(0, half)
}

func same(t *rapid.T, what string, want, got any, more ...cmp.Option) {
	t.Helper()
	if diff := cmp.Diff(want, got, append(more, cmpopts.EquateNaNs(), cmpopts.EquateEmpty())...); diff != "" {
		t.Fatalf("%s (-want +got):\n%s", what, diff)
	}
}

// many returns the moments of the node and of workloads whose values all change every second.
func many(workloads, second int) []capability.Moment {
	all := []capability.Moment{{Used: unit.CPUTime(second) * 1e9, At: time.Duration(1+second) * time.Second}}
	for i := range workloads {
		random := rand.New(rand.NewPCG(uint64(i), uint64(second))) //nolint:gosec // it is to be the same each time
		s := uint64(second)
		all = append(all, capability.Moment{
			Quota: capability.Quota{
				Workload: fmt.Sprint("shop/web-", i, "/app"), Limit: 2, Now: 2 + float64(random.IntN(3)), Credit: 120 * random.Float64(), Capacity: 120,
				Periods: 10 * s, Throttled: s * uint64(i%10), Above: s / 7,
			},
			Used: unit.CPUTime(second)*1e9 + unit.CPUTime(random.IntN(900_000_000)), At: time.Duration(1+second) * time.Second,
		})
	}
	return all
}

// TestRingIsBounded checks that a ring with twice the maximum number of busy series keeps the maximum for a quarter of an
// hour, within the documented number of bytes. The other half is refused until workloads have disappeared.
func TestRingIsBounded(t *testing.T) {
	const most = mostSeries/measures - 1
	r := newRing(mostBytes)
	crowd := many(2*most+1, 0)[1+most:] // as many workloads as are kept, the node included
	for second := range 2 * Kept {
		r.add(start.Add(time.Duration(second)*time.Second), append(many(most, second), crowd...))
	}
	size := r.size()
	if size.Series != mostSeries || size.Refused != mostSeries {
		t.Errorf("%d series, %d refused", size.Series, size.Refused)
	}
	t.Logf("%d busy series have %.1f MiB", size.Series, float64(size.Bytes)/(1<<20))
	if p, found, err := (&History{ring: r}).Of("shop/web-0/app", Kept, 1); !found || err != nil || len(p.Times) != Kept || size.Bytes > 6<<20 {
		t.Errorf("%d samples in %d bytes: %v", len(p.Times), size.Bytes, err)
	}
	for _, one := range crowd {
		if _, found, _ := (&History{ring: r}).Of(one.Workload, Kept, 1); found {
			t.Fatalf("%s is kept, which is a workload too many", one.Workload)
		}
	}
	for second := range 3 * samples {
		r.add(start.Add(time.Duration(2*Kept+second)*time.Second), many(3, 2*Kept+second))
	}
	if size := r.size(); size.Series != 4*measures || size.Refused != 0 {
		t.Errorf("after the others went: %+v", size)
	}
}

// TestRingOfFewBytes checks that the oldest samples are dropped early if the samples need too many bytes, and that the
// remaining samples are complete.
func TestRingOfFewBytes(t *testing.T) {
	const bytes = 50_000
	r := newRing(bytes)
	for second := range 2 * Kept {
		r.add(start.Add(time.Duration(second)*time.Second), many(20, second))
		if size := r.size(); size.Bytes > bytes {
			t.Fatalf("%d bytes after %d s", size.Bytes, second)
		}
	}
	p, found, err := (&History{ring: r}).Of("shop/web-0/app", Kept, 1)
	if !found || err != nil || len(p.Times) >= Kept || len(p.Times) < 2*samples {
		t.Fatalf("%d samples: %v", len(p.Times), err)
	}
	if last := p.Times[len(p.Times)-1]; last != start.Add((2*Kept-1)*time.Second).UnixMilli() {
		t.Errorf("the last sample is of %d", last)
	}
	if w := p.Workloads[0]; len(w.Used) != len(p.Times) || slices.ContainsFunc(w.Used, math.IsNaN) {
		t.Errorf("use %v", w.Used)
	}
}

// TestPastAsJSON checks that unknown values are null, and that a column of zeros is omitted.
func TestPastAsJSON(t *testing.T) {
	h := New(Options{})
	for second := range 2 {
		all := many(1, second)
		all[1].Throttled, all[1].Above, all[1].Now = 0, 0, float64(2+2*second)
		all[1].Credit, all[1].Used = -0.5, unit.CPUTime(second)*15e8
		h.Add(start.Add(time.Duration(second)*time.Second), all)
	}
	p, _, err := h.Of("shop/web-0/app", Kept, 1)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(p)
	want := `{"v":1,"times":[1795435200000,1795435201000],"nodeUsedCPUs":[null,1],"workloads":[{"name":"shop/web-0/app",` +
		`"limitCPUs":[2,2],"nowCPUs":[2,4],"usedCPUs":[null,1.5],"creditCPUSeconds":[-0.5,-0.5],"capacityCPUSeconds":[120,120],` +
		`"periods":[null,10],"throttledPeriods":[null,0],"throttledPeriodsAbove":[null,0]}]}`
	if diff := cmp.Diff(want, string(text)); diff != "" || err != nil {
		t.Errorf("(-want +got): %v\n%s", err, diff)
	}
	last, _, err := h.Of("shop/web-0/app", 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := json.Marshal(last.Workloads[0]); string(text) != `{"name":"shop/web-0/app","limitCPUs":[2],"nowCPUs":[4],"usedCPUs":[1.5],"creditCPUSeconds":[-0.5],"capacityCPUSeconds":[120],"periods":[10]}` || err != nil {
		t.Errorf("%s: %v", text, err)
	}
}

// BenchmarkAdd adds a sample of the maximum number of busy series.
func BenchmarkAdd(b *testing.B) {
	r := newRing(mostBytes)
	all := make([][]capability.Moment, Kept)
	for second := range all {
		all[second] = many(mostSeries/measures-1, second)
		r.add(start, all[second])
	}
	b.ReportAllocs()
	for second := 0; b.Loop(); second++ {
		r.add(start, all[second%Kept])
	}
}

// BenchmarkRead reads what a page requests.
func BenchmarkRead(b *testing.B) {
	r := newRing(mostBytes)
	for second := range Kept {
		r.add(start, many(mostSeries/measures-1, second))
	}
	b.Run("one", func(b *testing.B) {
		for b.Loop() {
			if _, _, err := (&History{ring: r}).Of("shop/web-0/app", Kept, 1); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("all", func(b *testing.B) {
		for b.Loop() {
			if _, err := r.recent(samples); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// TestColumnJSON checks that a client over HTTP reads the same numbers, including unknown values.
func TestColumnJSON(t *testing.T) {
	want := Past{Format: Format, Times: []int64{1, 2}, Node: Column{math.NaN(), 1.25}, Workloads: []Workload{{Name: "a", Limit: Column{-1, 2}, Used: Column{0, 0}}}}
	text, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	want.Workloads[0].Used = nil // zeros are omitted
	var got Past
	if err := json.Unmarshal(text, &got); err != nil || !cmp.Equal(want, got, cmpopts.EquateNaNs()) {
		t.Errorf("%v: %s", err, cmp.Diff(want, got, cmpopts.EquateNaNs()))
	}
	if err := json.Unmarshal([]byte(`{"nodeUsedCPUs":["a"]}`), &got); err == nil {
		t.Error("a text is a number")
	}
}
