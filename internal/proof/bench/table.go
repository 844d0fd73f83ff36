package bench

import (
	"fmt"
	"io"

	"github.com/berth-project/berth/internal/proof/load"
	"github.com/berth-project/berth/internal/value/table"
)

// NotAvailable is printed for a quantile that the samples do not support.
const NotAvailable = "n/a"

// WriteTable prints a burst report for people.
func WriteTable(w io.Writer, r *Report) error {
	p := NewPrinter(w)
	p.Line("%s", r.Machine.Line())
	p.Line("%s", r.Setup.Line())
	p.Line("%d repetitions; %s", r.Repetitions, r.noiseLine())
	p.Line("")
	p.Table(armHeader(), armRows(r.Arms, r.Setup.LimitCPUs))
	p.Line("")
	p.Table([]string{"RATIO", "OF", "TO", "WINDOW", "OF ALL", "95 %", "PAIRED MEDIAN", "95 %"}, pairedRows(r.Ratios))
	printNeighbours(p, r)
	if len(r.Abusers) > 0 {
		p.Line("")
		p.Table([]string{"ABUSER", "LIMIT", "CREDIT LASTED", "MEASURED", "MEAN CPU", "MEAN/LIMIT", "LIMIT ALONE", "WRITES"}, abuserRows(r.Abusers))
		p.Line("")
		p.Table(boundHeader(), boundRows(r.Abusers))
	}
	p.Line("")
	p.Goals(r.Goals, r.Notes...)
	return p.Err()
}

// WriteSavedTable prints for people which limits suffice.
func WriteSavedTable(w io.Writer, r *SavedReport) error {
	p := NewPrinter(w)
	p.Line("%s", r.Machine.Line())
	p.Line("%s", r.Setup.Line())
	p.Line("%d repetitions; %s", len(r.Repetitions), r.noiseLine())
	p.Line("")
	var rows [][]string
	for i, saved := range r.Repetitions {
		for _, probe := range saved.Probes {
			fits := "no"
			if probe.Fits {
				fits = "yes"
			}
			rows = append(rows, []string{
				fmt.Sprint(i + 1), probe.Arm, fmt.Sprintf("%.3f", probe.LimitCPUs), fmt.Sprintf("%.3f", probe.P99), fmt.Sprintf("%.3f", probe.MeanCPUs), fits,
			})
		}
	}
	p.Table([]string{"REPETITION", "ARM", "LIMIT", "P99 RATIO", "MEAN CPU", "FITS"}, rows)
	p.Line("")
	p.Goals(r.Goals)
	return p.Err()
}

// Line describes the machine in one line.
func (m Machine) Line() string {
	cgroups := ""
	if m.Cgroups != "" {
		cgroups = ", cgroups " + m.Cgroups
	}
	return fmt.Sprintf("machine: Linux %s %s, %d CPUs%s, berth %s", m.Kernel, m.Arch, m.CPUs, cgroups, m.Berth)
}

// Line describes the setup in one line.
func (s Setup) Line() string {
	shape := "at random"
	if s.Regular {
		shape = "evenly spaced"
	}
	limit := ""
	if s.LimitCPUs > 0 {
		limit = fmt.Sprintf("limit %.2f CPU; ", s.LimitCPUs)
	}
	return fmt.Sprintf("load: %sbatches of %d requests of %.2f ms CPU, %g a second %s, %.0f s an arm, seed %d",
		limit, s.Batch, float64(s.WorkMicros)/1000, s.BatchesPerSec, shape, s.ArmSeconds, s.Seed)
}

func armHeader() []string {
	return []string{"ARM", "N", "FAILED", "P50 MS", "P95 MS", "P99 MS", "P99.9 MS", "THROTTLED", "ABOVE", "PERIODS", "MEAN CPU", "LIMIT", "WRITES"}
}

func armRows(arms []ArmSummary, limit float64) [][]string {
	rows := make([][]string, 0, len(arms))
	for _, a := range arms {
		limited := "none"
		if a.Name != Unlimited && a.Name != Unlimited2 {
			limited = fmt.Sprintf("%.2f", limit)
		}
		rows = append(rows, []string{
			a.Name, fmt.Sprint(a.Requests), fmt.Sprint(a.Failed),
			Millis(a.P50), Millis(a.P95), Millis(a.P99), Millis(a.P999),
			fmt.Sprint(a.Throttled), fmt.Sprint(a.Above), fmt.Sprint(a.Periods),
			fmt.Sprintf("%.3f", a.MeanCPUs), limited, fmt.Sprint(a.Writes),
		})
	}
	return rows
}

func ratioRows(lines []RatioLine) [][]string {
	rows := make([][]string, 0, len(lines))
	for _, l := range lines {
		rows = append(rows, append([]string{l.Quantile, l.Arm, l.Reference, l.Window}, ratioCells(l.Ratio)...))
	}
	return rows
}

// pairedRows adds the paired medians.
func pairedRows(lines []RatioLine) [][]string {
	rows := ratioRows(lines)
	for i, l := range lines {
		rows[i] = append(rows[i], ratioCells(l.Median)...)
	}
	return rows
}

// ratioCells returns a ratio and its interval.
func ratioCells(r *load.Ratio) []string {
	if r == nil {
		return []string{NotAvailable, ""}
	}
	return []string{fmt.Sprintf("%.3f", r.Estimate), fmt.Sprintf("%.3f..%.3f", r.Low, r.High)}
}

// noiseLine says how much two equal arms differ.
func (r *Report) noiseLine() string {
	m := r.floor().Median
	if m == nil {
		return "the noise of this machine is not known"
	}
	return fmt.Sprintf("noise of this machine: p99 of two arms without a limit %.3f (95 %% %.3f..%.3f)", m.Estimate, m.Low, m.High)
}

func abuserRows(abusers []Abuse) [][]string {
	rows := make([][]string, 0, len(abusers))
	for _, a := range abusers {
		alone := NotAvailable
		if a.Alone != nil {
			alone = fmt.Sprintf("%.4f", a.Alone.OverLimit)
		}
		rows = append(rows, []string{
			a.Mode, fmt.Sprintf("%.2f", a.LimitCPUs), fmt.Sprintf("%.1f s", a.SpentSeconds), fmt.Sprintf("%.0f s", a.Seconds),
			fmt.Sprintf("%.4f", a.MeanCPUs), fmt.Sprintf("%.4f", a.OverLimit), alone, fmt.Sprint(a.Writes),
		})
	}
	return rows
}

// fine prints a short time with two decimals, or n/a.
func fine(v *float64) string {
	if v == nil {
		return NotAvailable
	}
	return fmt.Sprintf("%.2f", *v)
}

// Millis prints a quantile in milliseconds, or n/a.
func Millis(v *float64) string {
	if v == nil {
		return NotAvailable
	}
	return fmt.Sprintf("%.1f", *v)
}

// Printer prints a report for people until the first error, and retains that error.
type Printer struct {
	w   io.Writer
	err error
}

// NewPrinter returns a printer that prints to w.
func NewPrinter(w io.Writer) *Printer { return &Printer{w: w} }

// Line prints one line.
func (p *Printer) Line(format string, args ...any) {
	if p.err != nil {
		return
	}
	if _, err := fmt.Fprintf(p.w, format+"\n", args...); err != nil {
		p.err = fmt.Errorf("print report: %w", err)
	}
}

// Table prints rows in columns, below a header.
func (p *Printer) Table(header []string, rows [][]string) {
	if p.err != nil {
		return
	}
	if err := table.Write(p.w, append([][]string{header}, rows...)); err != nil {
		p.err = fmt.Errorf("print report: %w", err)
	}
}

// Goals prints each goal with its verdict, and then the notes.
func (p *Printer) Goals(goals []Goal, notes ...string) {
	rows := make([][]string, 0, len(goals))
	for _, g := range goals {
		rows = append(rows, []string{string(g.Verdict), g.Goal, g.Measured})
	}
	p.Table([]string{"VERDICT", "GOAL", "MEASURED"}, rows)
	for _, note := range notes {
		p.Line("note: %s", note)
	}
}

// Err returns the first error of the writer.
func (p *Printer) Err() error { return p.err }
