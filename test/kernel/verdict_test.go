package kernel

import (
	"strings"
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
	quota, all := Cases{Tests: []string{"TestQuota"}}, job.Result{Output: output[:strings.Index(output, "=== RUN   TestParentRatio")], Ended: true}
	for name, c := range map[string]struct {
		cases Cases
		got   job.Result
		want  []string
	}{
		"passed":    {quota, all, nil},
		"skip":      {quota, job.Result{Output: output, Ended: true}, []string{"TestParentRatio: SKIP"}},
		"lost test": {Cases{Tests: []string{"TestGone"}}, all, []string{"TestGone has no result"}},
		"exit code": {quota, job.Result{Output: all.Output, Ended: true, Code: 2}, []string{"exit code 2"}},
		"panic":     {quota, job.Result{Output: all.Output}, []string{"the guest died in this package"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, Judge(c.cases, c.got)); diff != "" {
				t.Errorf("wrong (-want +got):\n%s", diff)
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
