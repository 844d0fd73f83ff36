package kernel

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/berth-project/berth/test/kernel/job"
)

// Outcomes of a test, as `go test -v` prints them.
const (
	passed  = "PASS"
	failed  = "FAIL"
	skipped = "SKIP"
)

// Outcomes reads the result line of every test and subtest from the output of a test binary.
func Outcomes(output string) map[string]string {
	line := regexp.MustCompile(`(?m)^\s*--- (PASS|FAIL|SKIP): (\S+) \(`)
	found := map[string]string{}
	for _, m := range line.FindAllStringSubmatch(output, -1) {
		found[m[2]] = m[1]
	}
	return found
}

// Record is what happened to every test in every cell that was booted.
type Record struct {
	skips    []Skip
	outcomes map[string]map[string]string // Test, cell name, outcome.
	layouts  map[string]string            // Layout of each cell that was booted.
}

// NewRecord starts a record that accepts the given skips.
func NewRecord(skips []Skip) *Record {
	return &Record{skips: skips, outcomes: map[string]map[string]string{}, layouts: map[string]string{}}
}

// Judge adds the result of one package in one cell and returns what is wrong with it.
func (r *Record) Judge(cell, layout string, want Cases, got job.Result) []string {
	r.layouts[cell] = layout
	var wrong []string
	outcomes := Outcomes(got.Output)
	switch {
	case !got.Ended:
		wrong = append(wrong, "the guest died in this package")
	case got.Code != 0:
		wrong = append(wrong, fmt.Sprintf("exit code %d", got.Code))
	}
	for _, test := range want.Tests {
		if outcomes[test] == "" {
			wrong = append(wrong, test+" has no result")
		}
	}
	for test, outcome := range outcomes {
		full := want.Package + "." + test
		if r.outcomes[full] == nil {
			r.outcomes[full] = map[string]string{}
		}
		r.outcomes[full][cell] = outcome
		if outcome == failed || outcome == skipped && !r.mayskip(layout, full) {
			wrong = append(wrong, test+": "+outcome)
		}
	}
	slices.Sort(wrong)
	return wrong
}

// mayskip says that an entry allows the test to skip itself in a layout.
func (r *Record) mayskip(layout, test string) bool {
	return slices.ContainsFunc(r.skips, func(s Skip) bool {
		return s.covers(test) && slices.Contains(s.Layouts, layout)
	})
}

// Unproved returns, after all cells, the entries that are not what they claim: those whose
// test passed nowhere, and those that no longer skip in a cell where they should.
func (r *Record) Unproved() []string {
	var wrong []string
	for _, s := range r.skips {
		somewhere := false
		for test, cells := range r.outcomes {
			if !s.covers(test) {
				continue
			}
			for cell, outcome := range cells {
				somewhere = somewhere || outcome == passed
				if test == s.Test && outcome != skipped && slices.Contains(s.Layouts, r.layouts[cell]) {
					wrong = append(wrong, fmt.Sprintf("%s: listed as skipped, but %s in %s", test, outcome, cell))
				}
			}
		}
		if !somewhere {
			wrong = append(wrong, s.Test+": listed as skipped, and passes in no cell")
		}
	}
	slices.Sort(wrong)
	return wrong
}

// Summary counts the outcomes of one result for the log, and names the tests that took longest.
func Summary(got job.Result) string {
	count := map[string]int{}
	for _, outcome := range Outcomes(got.Output) {
		count[outcome]++
	}
	words := []string{fmt.Sprintf("%d passed, %d skipped, %d failed in %v",
		count[passed], count[skipped], count[failed], got.Took.Round(100*time.Millisecond))}
	for _, slow := range slowest(got.Output) {
		words = append(words, fmt.Sprintf("%s %v", slow.test, slow.took.Round(time.Second)))
	}
	return strings.Join(words, ", ")
}

// slow is a test that took long.
type slow struct {
	test string
	took time.Duration
}

// slowest returns the tests that took five seconds and more, longest first.
func slowest(output string) []slow {
	line := regexp.MustCompile(`(?m)^--- \w+: (\S+) \((\S+)\)`)
	var list []slow
	for _, match := range line.FindAllStringSubmatch(output, -1) {
		if took, err := time.ParseDuration(match[2]); err == nil && took >= 5*time.Second {
			list = append(list, slow{test: match[1], took: took})
		}
	}
	slices.SortStableFunc(list, func(a, b slow) int { return cmp.Compare(b.took, a.took) })
	return list
}
