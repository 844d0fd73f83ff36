package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/berth-project/berth/internal/proof/bench"
)

// mostNoise is the share of the machine that others may use beside a figure that is judged.
const mostNoise = 0.05

// extent is a figure of each round: its median and extremes.
type extent struct{ middle, low, high float64 }

// over returns the extent of a figure over the rounds.
func (r *costReport) over(figure func(costRound) float64) extent {
	all := make([]float64, 0, len(r.Rounds))
	for _, round := range r.Rounds {
		all = append(all, figure(round))
	}
	slices.Sort(all)
	n := len(all)
	return extent{(all[(n-1)/2] + all[n/2]) / 2, all[0], all[n-1]}
}

// judge compares the medians over the rounds with the goals. A goal of CPU time is open in a quick
// run, and where others used more than mostNoise of the machine.
func (r *costReport) judge() []bench.Goal {
	noise := r.over(func(c costRound) float64 { return max(c.Rest.Steal, c.Rest.Others, c.With.Steal, c.With.Others) })
	goal := func(text, format string, s extent, most float64) bench.Goal {
		g := bench.Goal{Goal: text, Measured: fmt.Sprintf(format+" ("+format+" to "+format+")", s.middle, s.low, s.high), Verdict: bench.VerdictOf(s.middle <= most)}
		switch {
		case r.Quick:
			g.Verdict = bench.Open
			g.Measured += "; a quick run"
		case noise.high > mostNoise:
			g.Verdict = bench.Open
			g.Measured += fmt.Sprintf("; others used %.0f %% of the machine", 100*noise.high)
		}
		return g
	}
	rss := r.over(func(c costRound) float64 { return max(c.Rest.RSSMiB, c.With.RSSMiB) }).high
	return []bench.Goal{
		goal("agent at rest <= 1.0 ms a second", "%.2f", r.over(func(c costRound) float64 { return c.Rest.AgentMillis }), goalRest),
		goal("agent CPU per raised group per second <= 40 µs", "%.1f", r.over(r.groupMicros), bench.GoalGroupMicros),
		{
			Goal: fmt.Sprintf("agent resident memory with %d groups <= %.0f MiB (peak)", r.Groups, bench.GoalRSSMany), Measured: fmt.Sprintf("%.1f MiB", rss),
			Verdict: bench.VerdictOf(rss <= bench.GoalRSSMany),
		},
	}
}

// groupMicros returns the CPU time of a raised group in a round, in µs a second.
func (r *costReport) groupMicros(c costRound) float64 {
	return 1000 * (c.With.AgentMillis - c.Rest.AgentMillis) / float64(r.Groups)
}

// print prints the report for people.
func (r *costReport) print(w io.Writer) error {
	p := bench.NewPrinter(w)
	p.Line("%s", r.Machine.Line())
	var rows [][]string
	for i, c := range r.Rounds {
		rows = append(rows, c.Rest.row(i+1, 0), c.With.row(i+1, r.Groups))
	}
	p.Table([]string{"ROUND", "RAISED GROUPS", "AGENT MS/S", "SWITCHES/S", "PEAK RSS MIB", "STEAL", "OTHERS", "LOAD"}, rows)
	if threads := r.threads(); len(threads) > 0 {
		p.Line("")
		p.Table([]string{"ROUND", "RAISED GROUPS", "THREAD", "MS/S", "SWITCHES/S"}, threads)
	}
	p.Line("")
	p.Goals(r.Goals)
	return p.Err()
}

// threads returns the lines of the last round's threads, at rest and with raised groups.
func (r *costReport) threads() (rows [][]string) {
	n := len(r.Rounds)
	lines := func(groups int, p phase) {
		for _, t := range p.Threads {
			rows = append(rows, []string{
				strconv.Itoa(n), strconv.Itoa(groups), strconv.Itoa(t.ID), fmt.Sprintf("%.3f", t.Millis), fmt.Sprintf("%.1f", t.Switches),
			})
		}
	}
	lines(0, r.Rounds[n-1].Rest)
	lines(r.Groups, r.Rounds[n-1].With)
	return rows
}

// row returns a line of the table.
func (p phase) row(round, groups int) []string {
	return []string{
		strconv.Itoa(round), strconv.Itoa(groups), fmt.Sprintf("%.2f", p.AgentMillis), fmt.Sprintf("%.0f", p.Switches),
		fmt.Sprintf("%.1f", p.RSSMiB), fmt.Sprintf("%.1f %%", 100*p.Steal), fmt.Sprintf("%.1f %%", 100*p.Others), p.Load,
	}
}
