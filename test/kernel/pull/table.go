package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// Print writes the report as text: a row for each figure, a column for each arm, then the verdict.
func (r *Report) Print(to io.Writer) error {
	fmt.Fprintf(to, "Linux %s, HZ %d, %d CPUs; reserve of %d %%. Waits of the server's threads.\n\n", r.Kernel, r.HZ, r.CPUs, r.Reserve)
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	row := func(name string, cell func(*Arm) string) {
		cells := []string{name}
		for _, a := range r.Arms {
			cells = append(cells, cell(a))
		}
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	waited := func(name string, p Place) {
		row(name, func(a *Arm) string { return fmt.Sprintf("%.0f ms", a.Time[p]) })
	}
	counts := func(name string, of func(*Arm) map[Mover]int, by Mover) {
		row(name, func(a *Arm) string { return fmt.Sprint(of(a)[by]) })
	}
	moved, ended := func(a *Arm) map[Mover]int { return a.Moved }, func(a *Arm) map[Mover]int { return a.Ended }
	row("", func(a *Arm) string { return strings.ToUpper(a.Name) })
	row("load", func(a *Arm) string { return fmt.Sprintf("%.0f s", a.Seconds) })
	row("threads that wait, in the mean", func(a *Arm) string { return fmt.Sprintf("%.3f", a.Waiting()) })
	waited("  their own CPU is idle", OnIdle)
	waited("  behind a hog", BehindHog)
	waited("  stacked, a CPU is idle", BesideIdle)
	waited("  stacked, a CPU has hogs only", BesideHogs)
	waited("  stacked, all CPUs are online", Busy)
	counts("moved by new idle balance", moved, NewIdle)
	counts("moved by ticks", moved, Tick)
	counts("moved by stoppers", moved, Stopper)
	row("stacks beside hogs only, > 0.5 ms", func(a *Arm) string { return fmt.Sprint(a.Stacks.Count) })
	row("  p50 / p90 / max ms", func(a *Arm) string { return a.Stacks.String() })
	counts("  own CPU came free", ended, OwnCPU)
	counts("  ended by new idle balance", ended, NewIdle)
	counts("  ended by a tick", ended, Tick)
	counts("  ended by a stopper", ended, Stopper)
	row("waits whose end is unclear", func(a *Arm) string { return fmt.Sprint(a.Unclear) })
	if err := w.Flush(); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	_, err := fmt.Fprintf(to, "\nThe claim: %s.\n%s\n\n%s: %s.\n", Claim, Rule, strings.ToUpper(string(r.Verdict)), r.Why)
	if err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

// String returns a cell about the duration of stacks.
func (s Stacks) String() string {
	if s.Count == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f / %.2f / %.2f", s.P50, s.P90, s.Max)
}
