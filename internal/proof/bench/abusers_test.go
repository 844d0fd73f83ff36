package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berth-project/berth/internal/capability/burst/credit"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/proof/load"
	"github.com/berth-project/berth/internal/value/unit"
)

// TestStrikes counts the strikes in recorded series of quotas: the limit is 50 ms in 100 ms.
func TestStrikes(t *testing.T) {
	for name, c := range map[string]struct {
		series []unit.Micros
		want   int
	}{
		"nothing":                          {nil, 0},
		"never raised":                     {[]unit.Micros{50_000, 50_000}, 0},
		"raised all the time":              {[]unit.Micros{149_998, 149_998, 149_998}, 0},
		"read more than once":              {[]unit.Micros{149_998, 149_998, 50_000, 50_000, 149_998, 50_000}, 2},
		"a raise is no strike":             {[]unit.Micros{50_000, 149_998}, 0},
		"a lower ceiling is no strike":     {[]unit.Micros{149_998, 99_998, 149_998}, 0},
		"from a lower ceiling":             {[]unit.Micros{149_998, 99_998, 50_000}, 1},
		"without a quota, below the limit": {[]unit.Micros{unit.NoLimit, 40_000}, 1},
	} {
		var q quotas
		for _, quota := range c.series {
			q = q.add(cgroup.Bandwidth{Quota: quota, Period: Period})
		}
		if got := q.strikes(50_000); got != c.want {
			t.Errorf("%s: %d strikes, want %d", name, got, c.want)
		}
	}
}

// TestStrikesSpendTheirCredit: a turn of work spends the whole credit at the ceiling, a turn of rest brings it back, and
// the credit pays for a raise on machines of any size.
func TestStrikesSpendTheirCredit(t *testing.T) {
	for _, n := range []int{2, 64, 256} {
		f := credit.Facts{LimitQuota: 50_000, Period: Period, CPUs: n, Slice: 5000, Tick: 4 * time.Millisecond}
		for _, a := range allAbusers() {
			a, seconds := a.credited(10, f)
			if !a.strikes {
				if seconds != 10 {
					t.Errorf("%s: a credit of %d s", a.name, seconds)
				}
				continue
			}
			p := policy(seconds)
			capacity, limit := p.Capacity(f.Limit()), f.Limit()
			if spent, back := (p.Ceiling(limit) - limit).Over(a.on), limit.Over(a.off); spent < capacity || back < capacity || !raises(seconds, f) {
				t.Errorf("%s on %d CPUs: spends %v and gets %v back of %v, raises %v", a.name, n, spent, back, capacity, raises(seconds, f))
			}
		}
		if _, seconds := (abuser{strikes: true}).credited(10, f); n == 2 && seconds != leastStrike {
			t.Errorf("on two CPUs a credit of %d s", seconds)
		}
	}
}

func TestAbuserNames(t *testing.T) {
	if got, want := AbuserNames(), []string{"always", "onoff", "while-raised", "in-kernel", "strikes"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := len(AllAbuserNames()), len(AbuserNames())+len(load.CallKinds()); got != want {
		t.Errorf("%d names, want %d", got, want)
	}
}

// TestUseOverWindows: the use over a window counts from its lowest sample, and an interruption within a read is no use.
func TestUseOverWindows(t *testing.T) {
	const ms = time.Millisecond
	type sample struct {
		used          unit.CPUSeconds
		before, after time.Duration
	}
	for name, c := range map[string]struct {
		samples []sample
		want    float64
		gap     time.Duration
	}{
		"at the limit":                       {[]sample{{0.5, 1000 * ms, 1000 * ms}, {1, 2000 * ms, 2000 * ms}}, 0, 1000 * ms},
		"from the beginning":                 {[]sample{{0.75, 1000 * ms, 1000 * ms}, {1, 2000 * ms, 2000 * ms}}, 0.25, 1000 * ms},
		"after a rest":                       {[]sample{{0, 2000 * ms, 2000 * ms}, {1.5, 3000 * ms, 3000 * ms}}, 1, 2000 * ms},
		"the most, not the last":             {[]sample{{1, 1000 * ms, 1000 * ms}, {1, 2000 * ms, 2000 * ms}}, 0.5, 1000 * ms},
		"interrupted in the read at begin":   {[]sample{{0.5, 1000 * ms, 1500 * ms}, {1, 2000 * ms, 2000 * ms}}, 0, 1500 * ms},
		"interrupted in the read at the end": {[]sample{{0, 1000 * ms, 1000 * ms}, {1, 1500 * ms, 2000 * ms}}, 0.5, 1000 * ms},
	} {
		w := &windows{limit: 0.5}
		for _, s := range c.samples {
			w.add(s.used, s.before, s.after)
		}
		if w.most != c.want || w.looks != len(c.samples) || w.gap != c.gap {
			t.Errorf("%s: %v in %d samples, %s apart, want %v and %s", name, w.most, w.looks, w.gap, c.want, c.gap)
		}
	}
}

// TestAbuserWithoutResult: an abuser that got too little CPU time loses the results of no other abuser, before or after
// it. Any other error ends the run.
func TestAbuserWithoutResult(t *testing.T) {
	broken := errors.New("no such group")
	for name, c := range map[string]struct {
		failed error
		want   []string
	}{
		"all run":    {nil, []string{"always", "onoff", "strikes"}},
		"not spent":  {fmt.Errorf("after 3m: %w", ErrNotSpent), []string{"always", "strikes"}},
		"not raised": {ErrNotRaised, []string{"always", "strikes"}},
		"broken":     {broken, nil},
		"ended":      {errors.Join(ErrNotSpent, context.Canceled), nil},
		"both":       {fmt.Errorf("run: %w", errors.Join(ErrNotSpent, broken)), nil},
		"two":        {errors.Join(ErrNotSpent, ErrNotRaised), []string{"always", "strikes"}},
	} {
		o := AbuseOptions{Measure: time.Second, Abusers: []string{"strikes", "always", "onoff"}}
		results, err := o.each(func(a abuser) (Abuse, error) {
			if a.name == "onoff" && c.failed != nil {
				return Abuse{Mode: "broken"}, c.failed
			}
			return Abuse{Mode: a.name}, nil
		})
		if !errors.Is(err, c.failed) || err != nil && !strings.HasPrefix(err.Error(), "abuser onoff: ") {
			t.Errorf("%s: %v", name, err)
		}
		var got []string
		for _, a := range results {
			got = append(got, a.Mode)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		if missing := o.missing(results); len(missing)+len(got) != 3 {
			t.Errorf("%s: %q are missing beside %q", name, missing, got)
		}
	}
}

// TestReportWithoutAnAbuser: the report has the arms and the other abusers, and says which abuser is missing.
func TestReportWithoutAnAbuser(t *testing.T) {
	o := crowded(t, 0)
	o.Abuse = AbuseOptions{Measure: time.Second, Abusers: []string{"always", "strikes"}}
	failed := ErrNotSpent
	o.abuse = func(context.Context, Place, AbuseOptions, func(string)) ([]Abuse, error) {
		return []Abuse{{Mode: "strikes", Alone: &AbuseAlone{OverLimit: 1.25, ExcessSeconds: 0.375}}}, failed
	}
	r, err := RunBurst(t.Context(), o)
	if !errors.Is(err, ErrNotSpent) || r == nil || len(r.Abusers) != 1 || len(r.Arms) != len(o.Arms) {
		t.Fatalf("%+v: %v", r, err)
	}
	var out bytes.Buffer
	if err := WriteTable(&out, r); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"note: these abusers have no result, see the error: always", "1.2500", "0.375 s"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("want %q in\n%s", want, out.String())
		}
	}
	var written Report
	text, err := os.ReadFile(filepath.Join(o.Out, "summary.json"))
	if err != nil || json.Unmarshal(text, &written) != nil || len(written.Abusers) != 1 {
		t.Errorf("%v\n%s", err, text)
	}
	failed = errors.New("no such group")
	if r, err := RunBurst(t.Context(), o); r != nil || !errors.Is(err, failed) {
		t.Errorf("%+v: %v", r, err)
	}
}
