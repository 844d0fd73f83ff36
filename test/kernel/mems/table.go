package mems

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
)

// Print writes the report as text: a row for each figure, a column for each arm, then the laws.
func (r *Report) Print(to io.Writer) error {
	fmt.Fprintf(to, "Linux %s, cgroup v%d: %s of a running group on node %d, its CPUs are to be on node %d; %s of a file shared with a bystander.\n",
		r.Kernel, r.Cgroup, size(r.Bytes), r.Wrong, r.Right, size(r.Shared))
	fmt.Fprint(to, "Emulated processors: the times compare the columns, and say nothing of a real machine.\n\n")
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	row := func(name string, cell func(Arm) string) {
		cells := []string{name}
		for _, a := range r.Arms {
			cells = append(cells, cell(a))
		}
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	row("", func(a Arm) string { return strings.ToUpper(string(a.Kind)) })
	row("watched", func(a Arm) string { return fmt.Sprintf("%.1f s", a.Seconds) })
	row("writes of cpuset.mems that take a node", func(a Arm) string { return inGroup(a, fmt.Sprint(len(a.Writes))) })
	row("the longest of them", longest)
	row("elsewhere right before it", early)
	for _, question := range []string{NRI, Status, Health, Attach} {
		row(question+", p50 / p99 / max ms", func(a Arm) string { return a.Answers[question].String() })
	}
	row("CPUs of the group", func(a Arm) string { return inGroup(a, change(a.CPUs.Before, a.CPUs.After)) })
	row("memory nodes of the group", func(a Arm) string { return inGroup(a, change(a.Mems.Before, a.Mems.After)) })
	row("its memory on the wrong node", func(a Arm) string { return inGroup(a, change(size(a.Elsewhere.Before), size(a.Elsewhere.After))) })
	row("the bystander's pages there", func(a Arm) string { return inGroup(a, change(size(a.Bystander.Before), size(a.Bystander.After))) })
	row("a policy in the group", func(a Arm) string { return inGroup(a, change(a.Policy.Before, a.Policy.After)) })
	if err := w.Flush(); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	for _, a := range r.Arms {
		if a.Why != "" {
			fmt.Fprintf(to, "\n%s: %s\n", a.Kind, a.Why)
		}
	}
	if r.Warnings != "" {
		fmt.Fprintf(to, "\nNot measured: %s\n", r.Warnings)
	}
	r.printLaws(to)
	return nil
}

func (r *Report) printLaws(to io.Writer) {
	fmt.Fprintln(to)
	laws := r.Laws()
	for _, text := range slices.Sorted(maps.Keys(laws)) {
		word := "kept  "
		if len(laws[text]) > 0 {
			word = "BROKEN"
		}
		fmt.Fprintf(to, "%s  %s\n", word, text)
		for _, one := range laws[text] {
			fmt.Fprintf(to, "        %s\n", one)
		}
	}
}

// inGroup returns a cell about the group of an arm, if it has one.
func inGroup(a Arm, text string) string {
	if a.Kind == Rest {
		return "-"
	}
	return text
}

// change returns a cell about a value that may have changed.
func change(before, after string) string {
	if before == after {
		return after
	}
	if after == "" {
		after = "none"
	}
	return before + " -> " + after
}

func longest(a Arm) string {
	if len(a.Writes) == 0 {
		return "-"
	}
	return fmt.Sprintf("%.3f s", slices.MaxFunc(a.Writes, func(x, y Write) int { return cmp.Compare(x.Seconds, y.Seconds) }).Seconds)
}

func early(a Arm) string {
	if len(a.Writes) == 0 {
		return "-"
	}
	return size(slices.MaxFunc(a.Writes, func(x, y Write) int { return cmp.Compare(x.Elsewhere, y.Elsewhere) }).Elsewhere)
}

// String returns a cell about the durations of answers.
func (t Times) String() string {
	if t.Asked == 0 {
		return "-"
	}
	text := fmt.Sprintf("%.1f / %.1f / %.1f of %d", t.P50, t.P99, t.Max, t.Asked)
	if t.Failed > 0 {
		text += fmt.Sprintf(", %d failed", t.Failed)
	}
	return text
}

func size(bytes int64) string { return fmt.Sprintf("%d MiB", bytes>>20) }
