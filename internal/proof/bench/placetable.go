package bench

import (
	"fmt"
	"io"
	"strconv"
)

// WritePlaceTable prints a place report for people.
func WritePlaceTable(w io.Writer, r *PlaceReport) error {
	p := NewPrinter(w)
	p.Line("%s", r.Machine.Line())
	p.Line("load: %d traces of %d events, seeds from %d; %d timed calls of each kind",
		r.Setup.Repetitions, r.Setup.Events, r.Setup.Seed, r.Setup.Calls)
	p.Line("")
	p.Table([]string{"DECISION", "STATE OF 512 CPUs", "CPUS", "CALLS", "P50 µS", "P99 µS", "P99 µS CPU", "MAX µS"}, latencyRows(r.Latency))
	for _, on := range machinesOf(r.Arms) {
		p.Line("")
		p.Line("%s", on)
		p.Table([]string{"ARM", "PROMISE", "ARRIVALS", "ADMITTED", "ONE NUMA", "ONE L3", "NUMA/POD", "L3/POD", "SHARED CORES/POD"}, placeRows(r.Arms, on))
		p.Line("")
		p.Table([]string{"BERTH TO", "ADMITTED", "ONE NUMA", "ONE L3", "SHARED CORES (LESS)", "ADMITTED IN ONE L3"}, placeRatioRows(r.Comparisons, on))
	}
	p.Line("")
	p.Goals(r.Goals, r.Notes...)
	return p.Err()
}

func latencyRows(lines []LatencyLine) [][]string {
	rows := make([][]string, 0, len(lines))
	for _, l := range lines {
		name := l.Request
		if l.Refused {
			name = "refused: " + name
		}
		rows = append(rows, []string{
			name, l.State, strconv.Itoa(l.CPUs), strconv.Itoa(l.Calls), fine(l.P50), fine(l.P99), fine(l.P99CPU), fine(&l.Max),
		})
	}
	return rows
}

// placeRows prints means over the traces.
func placeRows(arms []PlaceArm, on string) [][]string {
	var rows [][]string
	for _, a := range arms {
		if a.On != on {
			continue
		}
		var sum PlaceCounts
		for _, c := range a.Counts {
			sum.Arrivals += c.Arrivals
			sum.Admitted += c.Admitted
			sum.OneNUMA += c.OneNUMA
			sum.OneL3 += c.OneL3
			sum.NUMANodes += c.NUMANodes
			sum.L3s += c.L3s
			sum.SharedCores += c.SharedCores
		}
		each := func(n int) string { return fmt.Sprintf("%.3f", float64(n)/float64(max(sum.Admitted, 1))) }
		percent := func(n int) string { return fmt.Sprintf("%.2f %%", 100*float64(n)/float64(max(sum.Admitted, 1))) }
		rows = append(rows, []string{
			a.Name, a.Promise, strconv.Itoa(sum.Arrivals), strconv.Itoa(sum.Admitted),
			percent(sum.OneNUMA), percent(sum.OneL3), each(sum.NUMANodes), each(sum.L3s), each(sum.SharedCores),
		})
	}
	return rows
}

// placeRatioRows prints one line per peer, with the metrics side by side.
func placeRatioRows(ratios []PlaceRatio, on string) [][]string {
	var rows [][]string
	for _, c := range ratios {
		if c.On != on {
			continue
		}
		if len(rows) == 0 || rows[len(rows)-1][0] != c.Reference {
			rows = append(rows, []string{c.Reference})
		}
		text := NotAvailable
		if c.Ratio != nil {
			text = fmt.Sprintf("%.4f", c.Ratio.Estimate)
		}
		rows[len(rows)-1] = append(rows[len(rows)-1], text)
	}
	return rows
}
