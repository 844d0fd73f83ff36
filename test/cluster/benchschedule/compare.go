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

// The goals.
const (
	goalOrdinary        = 0.95
	goalPinned          = 0.90
	leastSchedulePods   = 1000
	leastScheduleRepeat = 6
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

// runsOf returns one arm's runs in the order of the repetitions.
func runsOf(runs []Run, s scenario, arm string) []Run {
	var list []Run
	for _, r := range runs {
		if r.Nodes == s.nodes && r.Percentage == s.percentage && r.Arm == arm {
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

// compareSchedules compares both arms with Berth to the arm without Berth.
func compareSchedules(runs []Run) []Ratio {
	var ratios []Ratio
	for _, s := range scenariosOf(runs) {
		for _, arm := range allArms()[1:] {
			for _, metric := range []string{metricPodRate, metricPerCPU} {
				with, without := paired(runsOf(runs, s, arm), runsOf(runs, s, armOff))
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

// judgeSchedule compares the lower end of each interval with the goals. The same goals apply to pods per second and to
// pods per CPU-second.
func judgeSchedule(r *Report) []bench.Goal {
	goals := make([]bench.Goal, 0, len(r.Comparisons))
	for _, c := range r.Comparisons {
		least := goalOrdinary
		if c.Arm == armPinned {
			least = goalPinned
		}
		goal := fmt.Sprintf("%s: %s >= %.2f × without, %s", c.Arm, c.Metric, least, scenario{c.Nodes, c.Percentage})
		if c.Ratio == nil {
			goals = append(goals, bench.Goal{Goal: goal, Measured: fmt.Sprintf("no interval from %d × %d pods", c.Repetitions, r.Setup.Pods), Verdict: bench.Open})
			continue
		}
		measured := fmt.Sprintf("%.3f (95 %% %.3f..%.3f)", c.Ratio.Estimate, c.Ratio.Low, c.Ratio.High)
		if r.Setup.Pods < leastSchedulePods || c.Repetitions < leastScheduleRepeat {
			goals = append(goals, bench.Goal{Goal: goal, Measured: fmt.Sprintf("%s from %d × %d pods, %d × %d wanted", measured,
				c.Repetitions, r.Setup.Pods, leastScheduleRepeat, leastSchedulePods), Verdict: bench.Open})
			continue
		}
		goals = append(goals, bench.Goal{Goal: goal, Measured: measured, Verdict: bench.VerdictOf(c.Ratio.Low >= least)})
	}
	return goals
}

// writeTable prints a schedule report as a table.
func writeTable(w io.Writer, r *Report) error {
	p := bench.NewPrinter(w)
	p.Line("%s", r.Machine.Line())
	p.Line("load: %d pods of %d CPUs a run, nodes of 256 CPUs, %d repetitions, arms interleaved, client QPS and burst %d",
		r.Setup.Pods, r.Setup.PodCPUs, r.Setup.Repetitions, r.Setup.QPS)
	p.Line("")
	p.Table([]string{"NODES", "PERCENTAGE", "ARM", "RUNS", "PODS/S", "MS CPU/POD", "PEAK MIB"}, scheduleRows(r.Runs))
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

// scheduleRows returns the totals of each arm over all repetitions.
func scheduleRows(runs []Run) [][]string {
	var rows [][]string
	for _, s := range scenariosOf(runs) {
		for _, arm := range allArms() {
			var pods int
			var elapsed, cpu, peak float64
			list := runsOf(runs, s, arm)
			for _, r := range list {
				pods += r.Pods
				elapsed += r.Seconds
				cpu += r.CPUSeconds
				peak = max(peak, r.PeakMiB)
			}
			if pods == 0 {
				continue
			}
			rows = append(rows, []string{
				strconv.Itoa(s.nodes), percentage(s.percentage), arm, strconv.Itoa(len(list)),
				fmt.Sprintf("%.1f", float64(pods)/elapsed), fmt.Sprintf("%.3f", 1000*cpu/float64(pods)), fmt.Sprintf("%.0f", peak),
			})
		}
	}
	return rows
}
