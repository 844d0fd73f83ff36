package seeds

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/berth-project/berth/internal/proof/bench"
	"github.com/berth-project/berth/internal/proof/load"
)

// WriteTable prints a report for people: a table for each experiment.
func WriteTable(w io.Writer, r *Report) error {
	p := bench.NewPrinter(w)
	p.Line("%s", r.Machine.Line())
	p.Line("%d repetitions, %g s an arm", r.Repetitions, r.ArmSeconds)
	for _, m := range r.Experiments {
		p.Line("")
		p.Line("%s: %s", m.Name, m.Document)
		p.Line("document: %s", m.Load)
		p.Line("%s", m.here())
		p.Table([]string{"FIGURE", "ARM", "VALUE", "TO THE FIRST", "95 %", "VERDICT"}, m.lines())
		for _, note := range m.notes() {
			p.Line("note: %s", note)
		}
	}
	return p.Err()
}

// WriteMarkdown prints the same as Markdown.
func WriteMarkdown(w io.Writer, r *Report) error {
	p := bench.NewPrinter(w)
	p.Line("# The documents' experiments")
	p.Line("")
	p.Line("%s. %d repetitions, %g s an arm. In parentheses is the ratio to the first arm, with its 95 %% interval.", r.Machine.Line(), r.Repetitions, r.ArmSeconds)
	for _, m := range r.Experiments {
		p.Line("")
		p.Line("## %s", m.Name)
		p.Line("")
		p.Line("%s. In the document: %s. %s.", m.Document, m.Load, upper(m.here()))
		p.Line("")
		header, rows := m.rows()
		p.Line("| %s |", strings.Join(header, " | "))
		p.Line("|%s", strings.Repeat("---|", len(header)))
		for _, row := range rows {
			p.Line("| %s |", strings.Join(row, " | "))
		}
		for _, note := range m.notes() {
			p.Line("")
			p.Line("%s.", upper(note))
		}
	}
	return p.Err()
}

func upper(text string) string { return strings.ToUpper(text[:1]) + text[1:] }

// here says what was measured on this machine, or why nothing was.
func (m Measured) here() string {
	if m.Why != "" {
		first, _, _ := strings.Cut(m.Why, "\n")
		return "not measured here: " + first
	}
	return "here: " + cmp.Or(m.Ours, "as in the document")
}

// notes returns what a reader should know: of this machine first, then of the document.
func (m Measured) notes() []string {
	notes := slices.Clone(m.Notes)
	for _, r := range m.Results {
		if r.Why != "" {
			notes = append(notes, fmt.Sprintf("%s is not measurable here: %s", r.Name, r.Why))
		}
	}
	if m.Remark != "" {
		notes = append(notes, m.Remark)
	}
	return notes
}

// lines returns a line for each printed state and each arm of each figure.
func (m Measured) lines() (lines [][]string) {
	for _, r := range m.Results {
		lines = append(lines,
			[]string{r.Name + " " + r.Unit, "printed, before", number(r.Before), "", "", ""},
			[]string{"", "printed, after", number(r.After), fmt.Sprintf("%.3f", r.After/r.Before), "", ""})
		for _, a := range r.Arms {
			line := []string{"", a.Arm, bench.NotAvailable, "", "", ""}
			if a.Value != nil {
				line[2] = number(*a.Value)
			}
			if a.Ratio != nil {
				line[3], line[4] = fmt.Sprintf("%.3f", a.Ratio.Estimate), fmt.Sprintf("%.3f..%.3f", a.Ratio.Low, a.Ratio.High)
			}
			if a.Arm == m.Treated {
				line[5] = string(r.Verdict)
			}
			lines = append(lines, line)
		}
	}
	return lines
}

// rows returns a row for each printed state and each arm, and the verdicts.
func (m Measured) rows() (header []string, rows [][]string) {
	header = []string{"arm"}
	before, after, verdicts := []string{"printed, before"}, []string{"printed, after"}, []string{"verdict"}
	for _, r := range m.Results {
		header = append(header, r.Name+" "+r.Unit)
		before = append(before, number(r.Before))
		after = append(after, fmt.Sprintf("%s (%.3f)", number(r.After), r.After/r.Before))
		verdicts = append(verdicts, string(r.Verdict))
	}
	rows = [][]string{before, after}
	if m.Why != "" {
		return header, rows
	}
	for i, arm := range m.Results[0].Arms {
		row := []string{arm.Arm}
		for _, r := range m.Results {
			row = append(row, cell(r.Arms[i].Value, r.Arms[i].Ratio))
		}
		rows = append(rows, row)
	}
	return header, append(rows, verdicts)
}

func cell(value *float64, ratio *load.Ratio) string {
	switch {
	case value == nil && ratio == nil:
		return bench.NotAvailable
	case value == nil:
		return fmt.Sprintf("(%.3f, %.3f to %.3f)", ratio.Estimate, ratio.Low, ratio.High)
	case ratio == nil:
		return number(*value)
	}
	return fmt.Sprintf("%s (%.3f, %.3f to %.3f)", number(*value), ratio.Estimate, ratio.Low, ratio.High)
}

// number formats a figure with four digits, or all digits before the point.
func number(v float64) string {
	if v >= 1000 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.4g", v)
}
