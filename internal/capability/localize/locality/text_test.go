package locality

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// TestText checks the texts of seed 004, word for word.
func TestText(t *testing.T) {
	t.Parallel()
	node := func(list string) (r Result) { r.To = set(t, list); return r }
	moved := func(name, from, to string, exited ...int) Result {
		return Result{Container: name, Outcome: Completed, From: set(t, from), To: node(to).To, Exited: exited}
	}
	none := Result{Container: "c", Outcome: Skipped, Err: ErrNoTarget}
	tests := map[string]struct {
		summary Summary
		reason  string
		phase   string
		want    string
	}{
		"output 1": {
			Summary{Results: []Result{moved("<container-name-1>", "1", "0"), moved("<container-name-2>", "0", "1")}, Ratio: 100},
			"MemoryLocalityCompleted", "Completed",
			"Container <container-name-1> completed: migrated memory from remote numa: 1 to local numa: 0\n" +
				"Container <container-name-2> completed: migrated memory from remote numa: 0 to local numa: 1\n" +
				"Total: 2 container(s) completed, 0 failed, 0 skipped; cur local memory ratio 100, rest remote memory pages 0",
		},
		"output 2": {
			Summary{Results: []Result{moved("<container-name-1>", "1", "0"), moved("<container-name-2>", "0", "1", 111111)}, Ratio: 100},
			"MemoryLocalityCompleted", "Completed",
			"Container <container-name-1> completed: migrated memory from remote numa: 1 to local numa: 0\n" +
				"Container <container-name-2> completed: failed to migrate the following processes: failed pid: 111111, error: No such process,from remote numa: 0 to local numa: 1\n" +
				"Total: 2 container(s) completed, 0 failed, 0 skipped; cur local memory ratio 100, rest remote memory pages 0",
		},
		"output 3":      {Summary{Results: []Result{none}, Ratio: 43, RestPages: 7}, "MemoryLocalitySkipped", "Closed", "no target numa"},
		"output 3, two": {Summary{Results: []Result{none, none}}, "MemoryLocalitySkipped", "Closed", "no target numa"},
		"output 4": {
			Summary{Results: []Result{{Container: "redis", Outcome: Failed, Err: errors.New("CAP_SYS_PTRACE is missing")}, moved("a", "1-2", "0,3")}, Ratio: 43, RestPages: 28586},
			"MemoryLocalityFailed", "Completed",
			"Container redis failed: CAP_SYS_PTRACE is missing\n" +
				"Container a completed: migrated memory from remote numa: 1-2 to local numa: 0,3\n" +
				"Total: 1 container(s) completed, 1 failed, 0 skipped; cur local memory ratio 43, rest remote memory pages 28586",
		},
		"some have no target": {
			Summary{Results: []Result{none, moved("a", "1", "0")}, Ratio: 100},
			"MemoryLocalityCompleted", "Completed",
			"Container c skipped: no target numa\nContainer a completed: migrated memory from remote numa: 1 to local numa: 0\n" +
				"Total: 1 container(s) completed, 0 failed, 1 skipped; cur local memory ratio 100, rest remote memory pages 0",
		},
		"nothing to do": {
			Summary{Results: []Result{{Container: "c", Outcome: Skipped, Err: errors.New("its memory is local")}}, Ratio: 100},
			"MemoryLocalitySkipped", "Completed",
			"Container c skipped: its memory is local\n" +
				"Total: 0 container(s) completed, 0 failed, 1 skipped; cur local memory ratio 100, rest remote memory pages 0",
		},
		"two processes": {
			Summary{Results: []Result{moved("c", "1", "0", 1, 22)}, Ratio: 99, RestPages: 1},
			"MemoryLocalityCompleted", "Completed",
			"Container c completed: failed to migrate the following processes: failed pid: 1, error: No such process,failed pid: 22, error: No such process,from remote numa: 1 to local numa: 0\n" +
				"Total: 1 container(s) completed, 0 failed, 0 skipped; cur local memory ratio 99, rest remote memory pages 1",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := tt.summary.Text(); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
			if got := tt.summary.Reason(); got != tt.reason {
				t.Errorf("reason %s, want %s", got, tt.reason)
			}
			if got := tt.summary.Phase(); string(got) != tt.phase {
				t.Errorf("phase %s, want %s", got, tt.phase)
			}
		})
	}
}

// TestTextFits checks that the text fits for lists of any length and ends with the totals, which include everything.
func TestTextFits(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := Summary{Ratio: rapid.IntRange(0, 100).Draw(t, "ratio"), RestPages: rapid.Int64Range(0, 1<<50).Draw(t, "pages")}
		for i := range rapid.IntRange(1, 60).Draw(t, "containers") {
			r := Result{
				Container: fmt.Sprintf("%s%d", strings.Repeat("x", rapid.IntRange(0, 60).Draw(t, "name")), i),
				Outcome:   rapid.SampledFrom([]Outcome{Completed, Skipped, Failed}).Draw(t, "outcome"),
				Err:       errors.New(strings.Repeat(rapid.SampledFrom([]string{"a", "é", "日"}).Draw(t, "letter"), rapid.IntRange(0, 900).Draw(t, "reason"))),
				From:      set(t, "1,3,5,7,9,11"), To: set(t, "0"),
			}
			for pid := range rapid.SampledFrom([]int{0, 0, 1, 5, 10_000}).Draw(t, "exited") {
				r.Exited = append(r.Exited, pid+1)
			}
			s.Results = append(s.Results, r)
		}
		text := s.Text()
		if len(text) > mostText || !utf8.ValidString(text) {
			t.Fatalf("%d bytes: %q", len(text), text)
		}
		total := fmt.Sprintf("Total: %d container(s) completed, %d failed, %d skipped; cur local memory ratio %d, rest remote memory pages %d",
			s.count(Completed), s.count(Failed), s.count(Skipped), s.Ratio, s.RestPages)
		if !strings.HasSuffix(text, "\n"+total) {
			t.Fatalf("%q does not end with %q", text, total)
		}
	})
}

func TestDiffers(t *testing.T) {
	t.Parallel()
	last := Reported{"a", Completed, 50}
	for want, all := range map[bool][]Reported{
		false: {last, {"a", Completed, 60}, {"a", Completed, 40}},
		true:  {{"a", Completed, 61}, {"a", Completed, 39}, {"a", Failed, 50}, {"b", Completed, 50}, {}},
	} {
		for _, r := range all {
			if r.Differs(last) != want {
				t.Errorf("%+v after %+v: %v", r, last, !want)
			}
		}
	}
}
