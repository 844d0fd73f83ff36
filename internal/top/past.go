package top

import (
	"fmt"
	"math"
	"strings"

	"github.com/berth-project/berth/internal/history"
)

const (
	// PastSeconds is how far back the curves of a workload reach.
	PastSeconds = history.Kept
	// PastStep is how many seconds one column of them is.
	PastStep     = 15
	curveColumns = PastSeconds / PastStep
)

// remembered is what is kept of a workload.
type remembered struct {
	workload string
	past     *history.Past // nil where nothing is
}

// curves are what a workload had and used in the last minutes, a line each; nothing where nothing
// is kept of it.
func (s *screen) curves() []string {
	if s.past.workload != s.selected || s.past.past == nil || len(s.past.past.Workloads) == 0 || len(s.past.past.Times) == 0 {
		return nil
	}
	p := s.past.past
	w, n := &p.Workloads[0], len(p.Times)
	lines := []string{fmt.Sprintf("%-*s %d min", labelWidth, "the last", PastSeconds/60)}
	for _, c := range []struct {
		label, unit string
		values      history.Column
	}{
		{"throttled", "%", shares(w.Throttled, w.Periods, n)},
		{"above", "%", shares(w.Above, w.Periods, n)},
		{"used", "CPUs", bounded(w.Used, n)},
		{"quota", "CPUs", bounded(w.Now, n)},
		{"credit", "CPU-s", bounded(w.Credit, n)},
	} {
		lines = append(lines, s.curve(c.label, c.unit, c.values))
	}
	return lines
}

// labelWidth is that of the name of a curve.
const labelWidth = 10

// curve is a list of numbers as a line, from 0 to the largest of them.
func (s *screen) curve(label, unit string, values history.Column) string {
	low, high := math.Inf(1), math.Inf(-1)
	for _, v := range values {
		if !math.IsNaN(v) {
			low, high = min(low, v), max(high, v)
		}
	}
	levels := []rune("▁▂▃▄▅▆▇█")
	if s.plain {
		levels = []rune("_.-=+*%#")
	}
	columns := values[max(0, len(values)-min(curveColumns, max(0, s.width-labelWidth-24))):]
	var b strings.Builder
	for _, v := range columns {
		switch {
		case math.IsNaN(v):
			b.WriteRune(' ')
		case high <= 0:
			b.WriteRune(levels[0])
		default:
			b.WriteRune(levels[int(max(0, v)/high*float64(len(levels)-1)+0.5)])
		}
	}
	if low > high {
		return fmt.Sprintf("%-*s -", labelWidth, label)
	}
	return fmt.Sprintf("%-*s %s  %.3g to %.3g %s", labelWidth, label, b.String(), low, high, unit)
}

// shares are part of whole in per cent; where nothing ran it was not throttled.
func shares(part, whole history.Column, n int) history.Column {
	all := make(history.Column, n)
	for i := range all {
		switch p, w := at(part, i), at(whole, i); {
		case math.IsNaN(p) || math.IsNaN(w):
			all[i] = math.NaN()
		case w > 0:
			all[i] = 100 * min(p/w, 1)
		}
	}
	return all
}

// bounded are amounts, of which -1 is not known: there is no limit.
func bounded(values history.Column, n int) history.Column {
	all := make(history.Column, n)
	for i := range all {
		if all[i] = at(values, i); all[i] == -1 {
			all[i] = math.NaN()
		}
	}
	return all
}

// at is a number of a Column, of which an empty one has zeros only.
func at(c history.Column, i int) float64 {
	if i >= len(c) {
		return 0
	}
	return c[i]
}
