package demo

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/proof/bench"
	"github.com/berth-project/berth/internal/value/table"
)

// Report is the result of the demonstration. Its JSON is a stable contract.
type Report struct {
	Machine  bench.Machine `json:"machine"`
	Topology string        `json:"topology"`
	// Setup and Arms are the load and the arms of burst.
	Setup bench.Setup        `json:"setup"`
	Arms  []bench.ArmSummary `json:"arms"`
	// Parts are the other capabilities, and those that this machine cannot show.
	Parts []Part `json:"parts"`
	// Files are the files that Berth managed, read before it began, when it was killed, and after berth rollback.
	Files    []FileProof `json:"files"`
	Restored bool        `json:"restored"`
	Notes    []string    `json:"notes,omitempty"`
}

// Part is the demonstration of one capability: a table, or why there is none.
type Part struct {
	Capability string     `json:"capability"`
	Title      string     `json:"title,omitempty"`
	Why        string     `json:"notShown,omitempty"`
	Header     []string   `json:"header,omitempty"`
	Rows       [][]string `json:"rows,omitempty"`
}

// FileProof is the content of one file at three moments.
type FileProof struct {
	File   string `json:"file"`
	Before string `json:"before"`
	During string `json:"during"`
	After  string `json:"after"`
	// Restored is true if After is Before, or has its effect: the kernel does not let a group with processes have an
	// empty list again, so its list names all CPUs or memory nodes, except the CPUs of a partition beside the group.
	Restored bool `json:"restored"`

	// group and list are the place of a list of CPUs or memory nodes. The list is "" for any other file.
	group string
	list  cgroup.Knob
}

func (o Options) newReport() *Report {
	return &Report{
		Machine:  o.Machine,
		Topology: Outline(o.Host),
		Setup: bench.Setup{
			LimitCPUs: float64(o.Limit), BatchesPerSec: o.Pattern.Rate, Batch: o.Pattern.Batch, Regular: o.Pattern.Regular,
			WorkMicros: o.Work.Microseconds(), ArmSeconds: o.Slice.Seconds() * float64(o.Rounds), Seed: o.Pattern.Seed,
		},
	}
}

// WriteTable prints the report for people.
func WriteTable(w io.Writer, r *Report) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n%s\n", r.Machine.Line(), strings.TrimSpace(r.Topology))
	if len(r.Arms) > 0 {
		fmt.Fprintf(&b, "\nburst: a limit, and CPU time that the server did not use before\n%s\n", r.Setup.Line())
		_ = table.Write(&b, armRows(r)) // a strings.Builder never fails
	}
	for _, p := range r.Parts {
		if p.Why != "" {
			fmt.Fprintf(&b, "\n%s: not shown: %s\n", p.Capability, p.Why)
			continue
		}
		fmt.Fprintf(&b, "\n%s: %s\n", p.Capability, p.Title)
		_ = table.Write(&b, append([][]string{p.Header}, p.Rows...)) // a strings.Builder never fails
	}
	if len(r.Files) > 0 {
		b.WriteString("\nthe way back: Berth was killed, then berth rollback\n")
		_ = table.Write(&b, fileRows(r)) // a strings.Builder never fails
	}
	b.WriteByte('\n')
	if r.Restored {
		b.WriteString("Every file that Berth could touch is as before. The groups are removed.\n")
	}
	for _, note := range append(r.Notes, reading(r)...) {
		b.WriteString("note: " + note + "\n")
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("print report: %w", err)
	}
	return nil
}

func armRows(r *Report) [][]string {
	rows := [][]string{{"ARM", "N", "P50 MS", "P99 MS", "P99.9 MS", "THROTTLED PERIODS", "MEAN CPU", "LIMIT", "WRITES"}}
	for _, a := range r.Arms {
		limit := fmt.Sprintf("%.2f", r.Setup.LimitCPUs)
		if a.Name == unlimited {
			limit = "none"
		}
		rows = append(rows, []string{
			a.Name, fmt.Sprint(a.Requests), bench.Millis(a.P50), bench.Millis(a.P99), bench.Millis(a.P999),
			fmt.Sprintf("%d of %d", a.Throttled+a.Above, a.Periods), fmt.Sprintf("%.3f", a.MeanCPUs), limit, fmt.Sprint(a.Writes),
		})
	}
	return rows
}

// sameEffect is the verdict on a list that was empty, and now names everything.
const sameEffect = "same effect"

func fileRows(r *Report) [][]string {
	rows := [][]string{{"FILE", "BEFORE", "WITH BERTH", "AFTER ROLLBACK", ""}}
	for _, f := range r.Files {
		verdict := "as before"
		switch {
		case !f.Restored:
			verdict = "DIFFERS"
		case f.After != f.Before:
			verdict = sameEffect
		}
		rows = append(rows, []string{f.File, f.Before, f.During, f.After, verdict})
	}
	return rows
}

// reading explains figures that may surprise.
func reading(r *Report) []string {
	notes := []string{"times are milliseconds from each request's intended start; n/a: fewer than ten requests lie above that quantile"}
	if slices.ContainsFunc(r.Files, func(f FileProof) bool { return f.Restored && f.After != f.Before }) {
		notes = append(notes, sameEffect+": the kernel does not let a group with processes have an empty list again; a list of everything limits as little")
	}
	for _, f := range r.Files {
		if f.During != f.Before {
			return append(notes, "WITH BERTH is what stood when Berth was killed; of a quota it is the ceiling, or the share that a busy machine left")
		}
	}
	return notes
}
