package seeds

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/berth-project/berth/internal/proof/bench"
	"github.com/berth-project/berth/internal/proof/load"
)

// Report is the outcome of bench seeds. Its JSON is a stable contract.
type Report struct {
	Machine     bench.Machine `json:"machine"`
	Repetitions int           `json:"repetitions"`
	ArmSeconds  float64       `json:"armSeconds"`
	Experiments []Measured    `json:"experiments"`
}

// Measured is an experiment with the figures of this machine.
type Measured struct {
	Experiment

	// Ours describes the load on this machine, Why says why nothing was measured. One of them is "".
	Ours string `json:"measuredLoad"`
	Why  string `json:"notMeasured"`
	// Notes are about the arms on this machine.
	Notes   []string `json:"notes,omitempty"`
	Results []Result `json:"results"`
}

// Result is a figure in all arms.
type Result struct {
	Figure

	Arms []ArmResult `json:"arms"`
	// Why says why this machine cannot show the figure, "" if it can.
	Why string `json:"notMeasured,omitempty"`
	// Verdict compares the change of the treated arm with the document's.
	Verdict Verdict `json:"verdict"`
}

// ArmResult is a figure in one arm. Value is null where the number of requests does not support a quantile. Ratio is
// that to the first arm; it is null there, and without enough repetitions.
type ArmResult struct {
	Arm   string      `json:"arm"`
	Value *float64    `json:"value"`
	Ratio *load.Ratio `json:"ratio"`
}

// Verdict compares a change with the document's.
type Verdict string

// The verdicts.
const (
	// Same is a change in the document's direction: the whole interval is on that side of 1.
	Same Verdict = "as printed"
	// Opposite is a change in the other direction.
	Opposite Verdict = "opposite"
	// Neither means that the interval contains 1.
	Neither Verdict = "no difference"
	// Unchanged means that the document prints no change, and the interval contains 1.
	Unchanged Verdict = "unchanged, as printed"
	// Noisy means that the first arm differs from its second run by more than a tenth.
	Noisy Verdict = "not resolvable"
	// Open means that there is no interval.
	Open Verdict = "no interval"
	// Unmeasured means that this machine cannot show the figure.
	Unmeasured Verdict = "not measurable here"
)

// mostNoise is how far the two runs of the first arm may differ.
const mostNoise = 0.10

// leastChange is a change that a document can mean: a smaller one is none.
const leastChange = 0.005

func newMeasured(e Experiment) Measured {
	m := Measured{Experiment: e, Results: []Result{}}
	for _, f := range e.Figures {
		m.Results = append(m.Results, Result{Figure: f, Arms: []ArmResult{}})
	}
	return m
}

// summarize fills the results from all repetitions.
func (m *Measured) summarize(runs []repetition) {
	for i := range m.Results {
		r := &m.Results[i]
		r.Why = r.lacks(runs)
		for _, arm := range m.Arms {
			r.Arms = append(r.Arms, r.summary(runs, arm, m.Arms[0]))
		}
	}
	m.judge()
}

// lacks returns why one of the runs does not have the figure, "" if all have it.
func (r *Result) lacks(runs []repetition) string {
	for _, run := range runs {
		for _, values := range run {
			if why := values.Lacks[r.Name]; why != "" {
				return why
			}
		}
	}
	return ""
}

// summary compares an arm with the first arm.
func (r *Result) summary(runs []repetition, arm, first string) ArmResult {
	result := ArmResult{Arm: arm}
	if r.Why != "" {
		return result
	}
	if r.Quantile > 0 {
		var pairs []load.Pair
		var all []load.Sample
		for _, run := range runs {
			pairs = append(pairs, load.Pair{Arm: run[arm].Samples, Reference: run[first].Samples})
			all = append(all, run[arm].Samples...)
		}
		if d, ok := load.Quantile(load.Sorted(all), r.Quantile); ok {
			result.Value = new(float64(d) / float64(time.Millisecond))
		}
		if ratio, ok := load.PairedRatio(pairs, r.Quantile); ok && arm != first {
			result.Ratio = &ratio
		}
		return result
	}
	var ours, reference []load.Share
	var values []float64
	for _, run := range runs {
		values = append(values, run[arm].Of[r.Name])
		ours = append(ours, load.Share{Part: run[arm].Of[r.Name], Whole: 1})
		reference = append(reference, load.Share{Part: run[first].Of[r.Name], Whole: 1})
	}
	if len(values) > 0 {
		result.Value = new(load.Median(values))
	}
	if ratio, ok := load.PairedShares(ours, reference); ok && arm != first {
		result.Ratio = &ratio
	}
	return result
}

// judge sets the verdicts.
func (m *Measured) judge() {
	for i := range m.Results {
		r := &m.Results[i]
		var treated, noise *load.Ratio
		for _, a := range r.Arms {
			if a.Arm == m.Treated {
				treated = a.Ratio
			}
			if len(r.Arms) > 0 && a.Arm == r.Arms[0].Arm+Again {
				noise = a.Ratio
			}
		}
		if r.Verdict = verdict(r.Figure, treated, noise); r.Why != "" {
			r.Verdict = Unmeasured
		}
	}
}

// verdict compares the ratio of the treated arm with the printed change.
func verdict(f Figure, treated, noise *load.Ratio) Verdict {
	if treated == nil {
		return Open
	}
	if noise != nil && (noise.Estimate > 1+mostNoise || noise.Estimate < 1-mostNoise) {
		return Noisy
	}
	printed := f.After/f.Before - 1
	up, down := treated.Low > 1, treated.High < 1
	switch {
	case !up && !down && printed > -leastChange && printed < leastChange:
		return Unchanged
	case !up && !down:
		return Neither
	case up == (printed >= leastChange) && down == (printed <= -leastChange):
		return Same
	}
	return Opposite
}

// write writes the summary, the table in Markdown and the chart.
func (r *Report) write(out string) error {
	if out == "" {
		return nil
	}
	if err := bench.WriteSummary(out, r); err != nil {
		return err
	}
	var markdown strings.Builder
	if err := WriteMarkdown(&markdown, r); err != nil {
		return err
	}
	for name, text := range map[string]string{"seeds.md": markdown.String(), "seeds.svg": Chart(r)} {
		if err := os.WriteFile(filepath.Join(out, name), []byte(text), 0o644); err != nil {
			return fmt.Errorf("bench seeds: %w", err)
		}
	}
	return nil
}
