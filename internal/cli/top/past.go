package top

import (
	"fmt"
	"math"
	"strings"

	"github.com/berth-project/berth/internal/agent/history"
)

const (
	// PastSeconds is how many seconds the curves of a workload cover.
	PastSeconds = history.Kept
	// PastStep is how many seconds one column of a curve covers.
	PastStep     = 15
	curveColumns = PastSeconds / PastStep
)

// remembered is what is remembered about a workload.
type remembered struct {
	workload string
	past     *history.Past // nil if nothing is remembered
}

// curves draws what the workload had and used in the last minutes, one line each, nil if nothing is remembered.
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

// labelWidth is the width of a curve's label.
const labelWidth = 10

// curve draws numbers as one line, scaled from 0 to the largest of them.
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

// shares returns part/whole in percent; it is 0 for a step in which nothing ran.
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

// bounded returns amounts with NaN for -1, which means no limit.
func bounded(values history.Column, n int) history.Column {
	all := make(history.Column, n)
	for i := range all {
		if all[i] = at(values, i); all[i] == -1 {
			all[i] = math.NaN()
		}
	}
	return all
}

// at returns the value at i, or 0 beyond the end. An empty Column means zeros only.
func at(c history.Column, i int) float64 {
	if i >= len(c) {
		return 0
	}
	return c[i]
}
