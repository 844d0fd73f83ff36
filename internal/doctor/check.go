package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Severity says how urgent a finding is.
type Severity string

// Severities, the gravest first. Info is no fault.
const (
	Critical Severity = "critical"
	Warning  Severity = "warning"
	Info     Severity = "info"
)

// rank sorts the gravest first.
func (s Severity) rank() int { return slices.Index([]Severity{Critical, Warning, Info}, s) }

// About is what a check says of itself, and of what it finds.
type About struct {
	// Code names the check for good.
	Code string `json:"code"`
	// Title says in one sentence what is the case when it is found.
	Title string `json:"title"`
	// Symptom is what people notice.
	Symptom string `json:"symptom"`
	// Severity is the usual one; a check may find a graver or a lighter case.
	Severity Severity `json:"severity"`
	// Formula and Threshold are the rule; Source says where the threshold comes from.
	// A threshold of Berth's own is marked (H).
	Formula   string `json:"formula"`
	Threshold string `json:"threshold"`
	Source    string `json:"source"`
	// Remedy says what to do, Risk what that may cost.
	Remedy string `json:"remedy"`
	Risk   string `json:"risk"`
	// Hides are later checks, by code, whose numbers mean nothing where this is a fault.
	Hides string `json:"hides"`
}

// Check is one thing that may be wrong with a host.
type Check struct {
	About
	// Files are where the evidence comes from. One without "*" must be readable, and of
	// one with "*" at least one, else the check is skipped; one in brackets is optional.
	Files []string

	rates bool // it compares two samples
	find  func(*view) outcome
}

// Evidence is one value that was read.
type Evidence struct {
	File  string `json:"file"`
	Value string `json:"value"`
}

// Finding is a check that found something, with the severity of the case.
type Finding struct {
	About
	Evidence []Evidence `json:"evidence"`
}

// Skipped is a check that was not evaluated.
type Skipped struct {
	Code string `json:"code"`
	Why  string `json:"why"`
	// HiddenBy is the finding beside which the check has nothing to say, "" where the check
	// was not possible.
	HiddenBy string `json:"hiddenBy"`
}

// Report is what the checks say of a host, the gravest finding first.
type Report struct {
	Findings []Finding `json:"findings"`
	Skipped  []Skipped `json:"skipped"`
	// Load says in one sentence how much work there is, "" where that is unknown.
	Load string `json:"-"`
}

// Impossible is how many checks could not be evaluated for want of what they read.
func (r Report) Impossible() int {
	n := 0
	for _, s := range r.Skipped {
		if s.HiddenBy == "" {
			n++
		}
	}
	return n
}

// outcome is what a check says: evidence, or why it cannot say anything, or neither.
type outcome struct {
	evidence []Evidence
	severity Severity // "" is that of the check
	skip     string
}

// maxEvidence is how many values a finding shows; the worst come first.
const maxEvidence = 8

// Examine looks at two samples of one host; before may be nil.
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

// look evaluates the check where that is possible.
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
