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

// Outcomes returns the result of every test and subtest in the output of a test binary.
func Outcomes(output string) map[string]string {
	line := regexp.MustCompile(`(?m)^\s*--- (PASS|FAIL|SKIP): (\S+) \(`)
	found := map[string]string{}
	for _, m := range line.FindAllStringSubmatch(output, -1) {
		found[m[2]] = m[1]
	}
	return found
}

// Judge returns what is wrong with the result of one package: a test that failed, skipped itself or has no result, and
// a guest that died. A cell is booted to run its cases, so none may skip there.
func Judge(want Cases, got job.Result) []string {
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
		if outcome != passed {
			wrong = append(wrong, test+": "+outcome)
		}
	}
	slices.Sort(wrong)
	return wrong
}

// Summary counts the outcomes of one result for the log, and names the slowest tests.
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

// slow is a slow test.
type slow struct {
	test string
	took time.Duration
}

// slowest returns the tests that took at least five seconds, longest first.
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
