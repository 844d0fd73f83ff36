package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/berth-project/berth/internal/proof/bench"
	"github.com/berth-project/berth/internal/proof/load"
)

// The metrics of bench schedule. For both, more is better.
const (
	metricPodRate = "pods/s"
	metricPerCPU  = "pods per CPU-second of the scheduler"
)

// The goals, and what a verdict needs.
const (
	goalOrdinary = 0.98
	// goalPinned applies with the default percentage.
	goalPinned = 1.2
	// goalMillis is the CPU time of a pinned pod in clusters of manyNodes or more, with the default percentage.
	goalMillis          = 5.0
	manyNodes           = 10_000
	leastSchedulePods   = 10_000
	leastScheduleRepeat = 4
)

// scenario is a cluster size and a percentage.
type scenario struct{ nodes, percentage int }

func (s scenario) String() string {
	if s.percentage == 0 {
		return fmt.Sprintf("%d nodes", s.nodes)
	}
	return fmt.Sprintf("%d nodes, percentageOfNodesToScore %d", s.nodes, s.percentage)
}

// scenariosOf lists the scenarios in the order of the runs.
func scenariosOf(runs []Run) []scenario {
	var list []scenario
	for _, r := range runs {
		s := scenario{r.Nodes, r.Percentage}
		if len(list) == 0 || list[len(list)-1] != s {
			list = append(list, s)
		}
	}
	return list
}

// allArms lists all arms in the order of the tables.
func allArms() []string { return append(bench.ScheduleArms(), armAgain) }

// runsOf returns one arm's runs in the order of the repetitions: those that ran alone, or side by side with another arm.
func runsOf(runs []Run, s scenario, arm, other string) []Run {
	var list []Run
	for _, r := range runs {
		if r.Nodes == s.nodes && r.Percentage == s.percentage && r.Arm == arm && (r.Beside == "" || r.Beside == other) {
			list = append(list, r)
		}
	}
	return list
}

func scheduleShares(runs []Run, metric string) []load.Share {
	shares := make([]load.Share, len(runs))
	for i, r := range runs {
		shares[i] = load.Share{Part: float64(r.Pods), Whole: r.Seconds}
		if metric == metricPerCPU {
			shares[i].Whole = r.CPUSeconds
		}
	}
	return shares
}

// paired returns the runs of the repetitions that occur in both lists.
func paired(with, without []Run) (_, _ []Run) {
	lacks := func(runs []Run) func(Run) bool {
		return func(one Run) bool {
			return !slices.ContainsFunc(runs, func(r Run) bool { return r.Repetition == one.Repetition })
		}
	}
	return slices.DeleteFunc(slices.Clone(with), lacks(without)), slices.DeleteFunc(slices.Clone(without), lacks(with))
}

// compareSchedules compares the arms that ran to the arm without Berth, side by side to its runs at the same time.
func compareSchedules(runs []Run) []Ratio {
	var ratios []Ratio
	for _, s := range scenariosOf(runs) {
		for _, arm := range allArms()[1:] {
			if len(runsOf(runs, s, arm, armOff)) == 0 {
				continue
			}
			for _, metric := range []string{metricPodRate, metricPerCPU} {
				with, without := paired(runsOf(runs, s, arm, armOff), runsOf(runs, s, armOff, arm))
				line := Ratio{
					Nodes: s.nodes, Percentage: s.percentage, Arm: arm, Reference: armOff, Metric: metric, Repetitions: len(with),
				}
				if ratio, ok := load.PairedShares(scheduleShares(with, metric), scheduleShares(without, metric)); ok {
					line.Ratio = &ratio
				}
				ratios = append(ratios, line)
			}
		}
	}
	return ratios
}

// judgeSchedule compares the ends of the intervals with the goals: the lower end of ratios, the upper end of CPU time.
// Ratios of pods per second and of pods per CPU-second have the same goals, and so have arms side by side. The second
// arm without Berth only shows the noise.
func judgeSchedule(r *Report) []bench.Goal {
	var goals []bench.Goal
	for _, c := range r.Comparisons {
		least := goalOrdinary
		switch {
		case c.Arm == armAgain, c.Arm == armPinned && (c.Percentage != 0 || c.Nodes >= manyNodes):
			continue
		case c.Arm == armPinned:
			least = goalPinned
		}
		without := "without"
		if r.Setup.SideBySide {
			without = "without side by side"
		}
		goal := fmt.Sprintf("%s: %s >= %.2f × %s, %s", c.Arm, c.Metric, least, without, scenario{c.Nodes, c.Percentage})
		goals = append(goals, judged(r.Setup, goal, c.Repetitions, c.Ratio, func(ratio load.Ratio) bool { return ratio.Low >= least }))
	}
	for _, s := range scenariosOf(r.Runs) {
		if runs := runsOf(r.Runs, s, armPinned, armOff); len(runs) > 0 && s.percentage == 0 && s.nodes >= manyNodes {
			goal := fmt.Sprintf("%s: CPU of the scheduler <= %.0f ms a pod, %s", armPinned, goalMillis, s)
			goals = append(goals, judged(r.Setup, goal, len(runs), millisPerPod(runs), func(ms load.Ratio) bool { return ms.High <= goalMillis }))
		}
	}
	return goals
}

// judged returns the verdict on a figure with its interval, if the runs suffice for one.
func judged(setup Setup, goal string, repetitions int, figure *load.Ratio, met func(load.Ratio) bool) bench.Goal {
	if figure == nil {
		return bench.Goal{Goal: goal, Measured: fmt.Sprintf("no interval from %d × %d pods", repetitions, setup.Pods), Verdict: bench.Open}
	}
	measured := fmt.Sprintf("%.3f (95 %% %.3f..%.3f)", figure.Estimate, figure.Low, figure.High)
	if setup.Pods < leastSchedulePods || repetitions < leastScheduleRepeat {
		return bench.Goal{Goal: goal, Measured: fmt.Sprintf("%s from %d × %d pods, %d × %d wanted", measured,
			repetitions, setup.Pods, leastScheduleRepeat, leastSchedulePods), Verdict: bench.Open}
	}
	return bench.Goal{Goal: goal, Measured: measured, Verdict: bench.VerdictOf(met(*figure))}
}

// millisPerPod returns the scheduler's CPU time a pod in ms, with its interval; nil with fewer than two runs.
func millisPerPod(runs []Run) *load.Ratio {
	shares, one := make([]load.Share, len(runs)), make([]load.Share, len(runs))
	for i, r := range runs {
		shares[i], one[i] = load.Share{Part: 1000 * r.CPUSeconds, Whole: float64(r.Pods)}, load.Share{Part: 1, Whole: 1}
	}
	if millis, ok := load.PairedShares(shares, one); ok {
		return &millis
	}
	return nil
}

// writeTable prints a schedule report as a table.
func writeTable(w io.Writer, r *Report) error {
	p := bench.NewPrinter(w)
	p.Line("%s", r.Machine.Line())
	arms, header := "interleaved", []string{"NODES", "PERCENTAGE", "ARM", "RUNS", "PODS/S", "MS CPU/POD", "PEAK MIB"}
	if r.Setup.SideBySide {
		arms, header[2] = "side by side, each with its own scheduler and pods", "ARM AND ARM SIDE BY SIDE"
	}
	p.Line("load: %d pods of %d CPUs a run, nodes of 256 CPUs, %d repetitions, arms %s, client QPS and burst %d, agents renew Leases every %d s",
		r.Setup.Pods, r.Setup.PodCPUs, r.Setup.Repetitions, arms, r.Setup.QPS, r.Setup.LeaseSeconds)
	p.Line("")
	p.Table(header, scheduleRows(r.Runs))
	p.Line("")
	rows := make([][]string, 0, len(r.Comparisons))
	for _, c := range r.Comparisons {
		estimate, interval := bench.NotAvailable, ""
		if c.Ratio != nil {
			estimate, interval = fmt.Sprintf("%.3f", c.Ratio.Estimate), fmt.Sprintf("%.3f..%.3f", c.Ratio.Low, c.Ratio.High)
		}
		rows = append(rows, []string{strconv.Itoa(c.Nodes), percentage(c.Percentage), c.Metric, c.Arm, c.Reference, strconv.Itoa(c.Repetitions), estimate, interval})
	}
	p.Table([]string{"NODES", "PERCENTAGE", "RATIO", "OF", "TO", "PAIRS", "ESTIMATE", "95 %"}, rows)
	p.Line("")
	p.Goals(r.Goals, r.Notes...)
	return p.Err()
}

func percentage(n int) string {
	if n == 0 {
		return "default"
	}
	return strconv.Itoa(n)
}

// scheduleRows returns the totals of each arm over all repetitions. Arms side by side have a row of each below the other.
func scheduleRows(runs []Run) [][]string {
	var rows [][]string
	for _, s := range scenariosOf(runs) {
		for _, arm := range allArms() {
			list := runsOf(runs, s, arm, armOff)
			if len(list) == 0 {
				continue
			}
			rows = append(rows, scheduleRow(s, list))
			if list[0].Beside != "" {
				rows = append(rows, scheduleRow(s, runsOf(runs, s, armOff, arm)))
			}
		}
	}
	return rows
}

// scheduleRow returns the totals of the runs of an arm.
func scheduleRow(s scenario, runs []Run) []string {
	var pods int
	var elapsed, cpu, peak float64
	for _, r := range runs {
		pods += r.Pods
		elapsed += r.Seconds
		cpu += r.CPUSeconds
		peak = max(peak, r.PeakMiB)
	}
	arm := runs[0].Arm
	if beside := runs[0].Beside; beside != "" {
		arm += " | " + beside
	}
	return []string{
		strconv.Itoa(s.nodes), percentage(s.percentage), arm, strconv.Itoa(len(runs)),
		fmt.Sprintf("%.1f", float64(pods)/elapsed), fmt.Sprintf("%.3f", 1000*cpu/float64(pods)), fmt.Sprintf("%.0f", peak),
	}
}
