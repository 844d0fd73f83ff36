package kernel

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/test/kernel/job"
)

const output = `=== RUN   TestQuota
=== RUN   TestQuota/period_doubled
    live_test.go:40: note
    --- PASS: TestQuota/period_doubled (0.01s)
--- PASS: TestQuota (0.02s)
=== RUN   TestParentRatio
    live_test.go:60: only v1 refuses it
--- SKIP: TestParentRatio (0.00s)
PASS
`

func TestJudge(t *testing.T) {
	both := Cases{Package: "internal/x", Tests: []string{"TestQuota", "TestParentRatio"}}
	listed := []Skip{{Test: "internal/x.TestParentRatio", Layouts: []string{"v2"}, Reason: "only v1 refuses it"}}
	for name, c := range map[string]struct {
		skips []Skip
		cases Cases
		got   job.Result
		want  []string
	}{
		"listed skip":   {listed, both, job.Result{Output: output, Ended: true}, nil},
		"unlisted skip": {nil, both, job.Result{Output: output, Ended: true}, []string{"TestParentRatio: SKIP"}},
		"lost test": {
			listed,
			Cases{Package: "internal/x", Tests: []string{"TestGone"}},
			job.Result{Output: output, Ended: true},
			[]string{"TestGone has no result"},
		},
		"exit code": {listed, both, job.Result{Output: output, Ended: true, Code: 2}, []string{"exit code 2"}},
		"panic":     {listed, both, job.Result{Output: output}, []string{"the guest died in this package"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := NewRecord(c.skips).Judge("6.12-v2", "v2", c.cases, c.got)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("wrong (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSkipsAreProved(t *testing.T) {
	const pkg = "internal/x"
	rule := Cases{Package: pkg, Tests: []string{"TestRule"}}
	entry := Skip{Test: pkg + ".TestRule", Layouts: []string{"v2"}}
	said := func(outcome string) job.Result {
		return job.Result{Output: "--- " + outcome + ": TestRule (0.00s)\n", Ended: true}
	}
	for name, c := range map[string]struct {
		v2, v1 string
		want   []string
	}{
		"proved":   {skipped, passed, nil},
		"nowhere":  {skipped, skipped, []string{pkg + ".TestRule: listed as skipped, and passes in no cell"}},
		"outdated": {passed, passed, []string{pkg + ".TestRule: listed as skipped, but PASS in cell-v2"}},
	} {
		t.Run(name, func(t *testing.T) {
			record := NewRecord([]Skip{entry})
			record.Judge("cell-v2", "v2", rule, said(c.v2))
			record.Judge("cell-v1", "v1", rule, said(c.v1))
			if diff := cmp.Diff(c.want, record.Unproved()); diff != "" {
				t.Errorf("unproved (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSummaryNamesTheSlowest(t *testing.T) {
	got := Summary(job.Result{Took: 90 * time.Second, Output: "--- PASS: TestA (7.25s)\n    --- PASS: TestA/sub (6.00s)\n--- PASS: TestB (0.10s)\n--- FAIL: TestC (80.00s)\n"})
	if want := "3 passed, 0 skipped, 1 failed in 1m30s, TestC 1m20s, TestA 7s"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
