package bench

import (
	"fmt"
	"slices"
)

// NeighbourSummary is one neighbour in an arm over all repetitions. The counters belong to the neighbour's group: its
// ancestors are also those of the measured server.
type NeighbourSummary struct {
	Served

	Throttled uint64  `json:"throttledPeriods"`
	Periods   uint64  `json:"periods"`
	MeanCPUs  float64 `json:"meanCPUs"`
}

// summarizeNeighbours summarizes each neighbour of an arm.
func summarizeNeighbours(arm string, repetitions []Repetition) []NeighbourSummary {
	var all []NeighbourSummary
	for _, of := range eachNeighbour(repetitions) {
		s := Summarize(arm, of)
		all = append(all, NeighbourSummary{Served: s.Served, Throttled: s.Throttled, Periods: s.Periods, MeanCPUs: s.MeanCPUs})
	}
	return all
}

// eachNeighbour returns, for each neighbour, the repetitions with its own outcomes in place of the server's.
func eachNeighbour(repetitions []Repetition) [][]Repetition {
	var each [][]Repetition
	for r, repetition := range repetitions {
		for arm, outcome := range repetition {
			for i, own := range outcome.Beside {
				if i == len(each) {
					each = append(each, make([]Repetition, len(repetitions)))
				}
				if each[i][r] == nil {
					each[i][r] = Repetition{}
				}
				each[i][r][arm] = own
			}
		}
	}
	return each
}

// compareNeighbours compares the p99 of each neighbour with Berth to its p99 with the limit only, if both arms ran.
func compareNeighbours(repetitions []Repetition, arms []string) []RatioLine {
	if !slices.Contains(arms, Berth) || !slices.Contains(arms, QuotaOnly) {
		return nil
	}
	var lines []RatioLine
	for _, of := range eachNeighbour(repetitions) {
		lines = append(lines, compare(of, Berth, QuotaOnly, 0.99, 0))
	}
	return lines
}

// neighbourGoals judges what the neighbours get, if there are any: their limits may not pay for the server's burst.
func neighbourGoals(r *Report) []Goal {
	if len(r.NeighbourRatios) == 0 {
		return nil
	}
	const goal = "throttled periods of server and neighbours >= 99 % fewer than quota only"
	return []Goal{fewerThrottled(goal, throttledOfAll(arm(r, Berth)), throttledOfAll(arm(r, QuotaOnly))), neighboursGoal(r)}
}

// throttledOfAll counts the throttled periods of the server, its neighbours, and their common ancestors.
func throttledOfAll(a ArmSummary) uint64 {
	sum := a.Throttled + a.Above
	for _, n := range a.Neighbours {
		sum += n.Throttled
	}
	return sum
}

// neighboursGoal judges the neighbour with the largest upper end. It is open if any neighbour had too few requests,
// and with too few repetitions.
func neighboursGoal(r *Report) Goal {
	const goal = "p99 of each neighbour with Berth <= 1.05 × quota only"
	worst, missed := 0, false
	for i, line := range r.NeighbourRatios {
		if n := arm(r, Berth).Neighbours[i].Requests; line.Median == nil || n < leastRequestsP99 {
			return Goal{goal, fmt.Sprintf("neighbour %d: %d requests, %d wanted", i+1, n, leastRequestsP99), Open}
		}
		missed = missed || line.Median.Low > goalP99
		if line.Median.High > r.NeighbourRatios[worst].Median.High {
			worst = i
		}
	}
	m := r.NeighbourRatios[worst].Median
	measured := fmt.Sprintf("at most %.3f (95 %% %.3f..%.3f, neighbour %d)", m.Estimate, m.Low, m.High, worst+1)
	if few, wanted := r.tooFew(r.NeighbourRatios[worst]); few {
		return Goal{goal, measured + wanted, Open}
	}
	if m.High > goalP99 && !missed && r.noisy() {
		return Goal{goal, measured + "; the machine is too noisy", Open}
	}
	return Goal{goal, measured, VerdictOf(m.High <= goalP99)}
}

// printNeighbours prints what the neighbours got in each arm, and the comparison of each neighbour.
func printNeighbours(p *Printer, r *Report) {
	if r.Setup.Neighbours == 0 {
		return
	}
	var rows, ratios [][]string
	for _, a := range r.Arms {
		rows = append(rows, neighboursRow(a))
	}
	p.Line("")
	p.Table([]string{"NEIGHBOURS OF", "N", "FAILED", "WORST P99 MS", "THROTTLED", "PERIODS", "MEAN CPU"}, rows)
	if len(r.NeighbourRatios) == 0 {
		return
	}
	for i, row := range pairedRows(r.NeighbourRatios) {
		ratios = append(ratios, append([]string{fmt.Sprint(i + 1)}, row...))
	}
	p.Line("")
	p.Table([]string{"NEIGHBOUR", "RATIO", "OF", "TO", "WINDOW", "OF ALL", "95 %", "PAIRED MEDIAN", "95 %"}, ratios)
}

// neighboursRow sums the neighbours of an arm, and has the p99 of the slowest.
func neighboursRow(a ArmSummary) []string {
	var sum NeighbourSummary
	slowest, known := 0.0, len(a.Neighbours) > 0
	for _, n := range a.Neighbours {
		sum.Requests, sum.Failed = sum.Requests+n.Requests, sum.Failed+n.Failed
		sum.Throttled, sum.Periods, sum.MeanCPUs = sum.Throttled+n.Throttled, sum.Periods+n.Periods, sum.MeanCPUs+n.MeanCPUs
		if n.P99 == nil {
			known = false
			continue
		}
		slowest = max(slowest, *n.P99)
	}
	if known {
		sum.P99 = &slowest
	}
	return []string{
		a.Name, fmt.Sprint(sum.Requests), fmt.Sprint(sum.Failed), Millis(sum.P99),
		fmt.Sprint(sum.Throttled), fmt.Sprint(sum.Periods), fmt.Sprintf("%.3f", sum.MeanCPUs),
	}
}
