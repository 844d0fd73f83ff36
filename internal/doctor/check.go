package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Severity is the urgency of a finding.
type Severity string

// Severities, the most severe first. Info is not a fault.
const (
	Critical Severity = "critical"
	Warning  Severity = "warning"
	Info     Severity = "info"
)

// rank is 0 for the most severe.
func (s Severity) rank() int { return slices.Index([]Severity{Critical, Warning, Info}, s) }

// About describes a check and its finding.
type About struct {
	// Code is the stable name of the check.
	Code string `json:"code"`
	// Title describes the fault in one sentence.
	Title string `json:"title"`
	// Symptom is what people notice.
	Symptom string `json:"symptom"`
	// Severity is the usual severity. A check may raise or lower it for a particular finding.
	Severity Severity `json:"severity"`
	// Formula and Threshold are the rule; Source is the origin of the threshold. (H) marks a threshold of Berth's own.
	Formula   string `json:"formula"`
	Threshold string `json:"threshold"`
	Source    string `json:"source"`
	// Remedy is what to do, Risk what the remedy may cost.
	Remedy string `json:"remedy"`
	Risk   string `json:"risk"`
	// Hides are the codes of later checks whose numbers are meaningless beside this fault.
	Hides string `json:"hides"`
}

// Check looks for one possible fault of a host.
type Check struct {
	About
	// Files have the evidence. A file without "*" must be readable, of a pattern with "*" at least one match, or else
	// the check is skipped. A file in brackets is optional.
	Files []string

	rates bool // needs two samples
	find  func(*view) outcome
}

// Evidence is a value of a file.
type Evidence struct {
	File  string `json:"file"`
	Value string `json:"value"`
}

// Finding is a fault that a check found, with the severity of this case.
type Finding struct {
	About
	Evidence []Evidence `json:"evidence"`
}

// Skipped is a check that was not evaluated.
type Skipped struct {
	Code string `json:"code"`
	Why  string `json:"why"`
	// HiddenBy is the finding that makes the check meaningless, "" if the check was not possible.
	HiddenBy string `json:"hiddenBy"`
}

// Report is the result of all checks, the most severe finding first.
type Report struct {
	Findings []Finding `json:"findings"`
	Skipped  []Skipped `json:"skipped"`
	// Load describes the load in one sentence, "" if unknown.
	Load string `json:"-"`
}

// Impossible returns how many checks were skipped for missing or unreadable files.
func (r Report) Impossible() int {
	n := 0
	for _, s := range r.Skipped {
		if s.HiddenBy == "" {
			n++
		}
	}
	return n
}

// outcome is the result of a check: evidence, or the reason to skip it, or neither.
type outcome struct {
	evidence []Evidence
	severity Severity // "" means the check's severity
	skip     string
}

// maxEvidence is how many values a finding shows; the worst come first.
const maxEvidence = 8

// Examine runs all checks on two samples of one host; before may be nil.
func Examine(before, now *Sample) Report {
	v := newView(before, now)
	report := Report{Findings: []Finding{}, Skipped: []Skipped{}, Load: v.load()}
	hidden := map[string]string{}
	for _, c := range Checks() {
		o := c.look(v, hidden[c.Code])
		switch {
		case o.skip != "":
			report.Skipped = append(report.Skipped, Skipped{Code: c.Code, Why: o.skip, HiddenBy: hidden[c.Code]})
		case len(o.evidence) > 0:
			f := c.finding(o)
			report.Findings = append(report.Findings, f)
			for code := range strings.SplitSeq(c.Hides, ", ") {
				if f.Severity != Info {
					hidden[code] = c.Code
				}
			}
		}
	}
	slices.SortStableFunc(report.Findings, func(a, b Finding) int { return a.Severity.rank() - b.Severity.rank() })
	return report
}

// look evaluates the check if that is possible.
func (c Check) look(v *view, hiddenBy string) outcome {
	if hiddenBy != "" {
		return outcome{skip: hiddenBy + " hides it"}
	}
	if c.rates && v.before == nil {
		return outcome{skip: "one sample has no rates"}
	}
	for _, file := range c.Files {
		if why := v.missing(file); why != "" {
			return outcome{skip: why}
		}
	}
	return c.find(v)
}

func (c Check) finding(o outcome) Finding {
	if more := len(o.evidence) - maxEvidence; more > 0 {
		o.evidence = o.evidence[:maxEvidence]
		o.evidence[maxEvidence-1].Value += fmt.Sprintf("; and %d more values", more)
	}
	f := Finding{About: c.About, Evidence: o.evidence}
	f.Severity = cmp.Or(o.severity, c.Severity)
	return f
}
