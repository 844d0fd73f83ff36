package demo

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/proof/bench"
	"github.com/berth-project/berth/internal/value/table"
)

// Report is the result of the demonstration. Its JSON is a stable contract.
type Report struct {
	Machine  bench.Machine      `json:"machine"`
	Topology string             `json:"topology"`
	Setup    bench.Setup        `json:"setup"`
	Arms     []bench.ArmSummary `json:"arms"`
	// Files are the files of the managed group, read before the agent started, after it was killed, and after berth
	// rollback.
	Files    []FileProof `json:"files"`
	Restored bool        `json:"restored"`
	Notes    []string    `json:"notes,omitempty"`
}

// FileProof is the content of one file at three moments.
type FileProof struct {
	File   string `json:"file"`
	Before string `json:"before"`
	During string `json:"during"`
	After  string `json:"after"`
}

// bandwidthFiles returns all files through which a CPU limit can change.
func bandwidthFiles(version int) []string {
	if version == 1 {
		return []string{"cpu.cfs_quota_us", "cpu.cfs_period_us", "cpu.cfs_burst_us"}
	}
	return []string{"cpu.max", "cpu.max.burst"}
}

// readFiles reads the raw content of the group's files into Before. It leaves out files that this kernel lacks.
func readFiles(host *cgroup.Host, group string) ([]FileProof, error) {
	hierarchy, err := host.Hierarchy(cgroup.CPU)
	if err != nil {
		return nil, fmt.Errorf("files of %s: %w", group, err)
	}
	var files []FileProof
	for _, name := range bandwidthFiles(hierarchy.Version) {
		path := hierarchy.Mount + "/" + group + "/" + name
		content, err := host.Root().ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("files of %s: %w", group, err)
		}
		files = append(files, FileProof{File: host.Root().Join(path), Before: strings.TrimSpace(string(content))})
	}
	return files, nil
}

func (d *run) report() *Report {
	r := &Report{
		Machine:  d.Machine,
		Topology: d.Topology,
		Notes:    d.notes,
		Setup: bench.Setup{
			LimitCPUs: float64(d.Limit), BatchesPerSec: d.Pattern.Rate, Batch: d.Pattern.Batch, Regular: d.Pattern.Regular,
			WorkMicros: d.Work.Microseconds(), ArmSeconds: d.Slice.Seconds() * float64(d.Rounds), Seed: d.Pattern.Seed,
		},
	}
	for _, arm := range arms() {
		repetitions := make([]bench.Repetition, 0, d.Rounds)
		for _, outcome := range d.outcomes[arm] {
			repetitions = append(repetitions, bench.Repetition{arm: outcome})
		}
		summary := bench.Summarize(arm, repetitions)
		if arm == managed {
			summary.Writes = d.writes
		}
		r.Arms = append(r.Arms, summary)
	}
	return r
}

// WriteTable prints the report for people.
func WriteTable(w io.Writer, r *Report) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n%s\n%s\n\n", r.Machine.Line(), strings.TrimSpace(r.Topology), r.Setup.Line())
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
	_ = table.Write(&b, rows) // a strings.Builder never fails
	rows = [][]string{{"FILE", "BEFORE", "WITH BERTH", "AFTER ROLLBACK", ""}}
	for _, f := range r.Files {
		verdict := "as before"
		if f.After != f.Before {
			verdict = "DIFFERS"
		}
		rows = append(rows, []string{f.File, f.Before, f.During, f.After, verdict})
	}
	b.WriteByte('\n')
	_ = table.Write(&b, rows) // a strings.Builder never fails
	b.WriteByte('\n')
	if r.Restored {
		b.WriteString("The agent was killed and every file it could touch reads as before. The groups are removed.\n")
	}
	for _, note := range append(r.Notes, reading(r)...) {
		b.WriteString("note: " + note + "\n")
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("print report: %w", err)
	}
	return nil
}

// reading explains figures that may surprise.
func reading(r *Report) []string {
	notes := []string{"times are milliseconds from each request's intended start; n/a: fewer than ten requests lie above that quantile"}
	for _, f := range r.Files {
		if f.During != f.Before {
			return append(notes, "WITH BERTH is what stood when the agent was killed: the ceiling, or the share that a busy machine left")
		}
	}
	return notes
}
