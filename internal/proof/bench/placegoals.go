package bench

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/berth-project/berth/internal/proof/load"
)

// The figures to reach.
const (
	goalDecision      = 50 * time.Microsecond
	goalDecisionAny   = 500 * time.Microsecond
	goalRefusal       = time.Microsecond
	largestOften      = 64
	goalInL3          = 1.10
	leastTraceEvents  = 100_000
	leastTraceRepeats = 3
)

// judgePlace compares a report with the figures to reach. It judges latency in the half full states, by the worst
// request. "None worse" is met if the estimate is no worse, and missed if the whole interval over seeds is worse.
// Otherwise it is open: no difference shown. The goal with a margin is judged by the lower end of the interval.
func judgePlace(r *PlaceReport) []Goal {
	goals := []Goal{
		latencyGoal(r, fmt.Sprintf("decision p99 <= %s up to %d CPUs, 512 CPUs half full", goalDecision, largestOften),
			func(l LatencyLine) bool { return !l.Refused && l.CPUs <= largestOften }, goalDecision),
		latencyGoal(r, fmt.Sprintf("decision p99 <= %s for any number", goalDecisionAny),
			func(l LatencyLine) bool { return !l.Refused }, goalDecisionAny),
		latencyGoal(r, fmt.Sprintf("an impossible request refused, p99 <= %s", goalRefusal),
			func(l LatencyLine) bool { return l.Refused }, goalRefusal),
	}
	for _, on := range machinesOf(r.Arms) {
		for _, m := range placeMetrics() {
			if m.name != metricInL3 {
				goals = append(goals, notWorse(r, on, m, false), notWorse(r, on, m, true))
			}
		}
		for _, aligns := range []bool{false, true} {
			goals = append(goals, moreInL3(r, on, aligns))
		}
	}
	return goals
}

func machinesOf(arms []PlaceArm) []string {
	var names []string
	for _, a := range arms {
		if len(names) == 0 || names[len(names)-1] != a.On {
			names = append(names, a.On)
		}
	}
	return names
}

// latencyGoal judges the worst of the lines that counts selects, and names their kinds.
func latencyGoal(r *PlaceReport, goal string, counts func(LatencyLine) bool, most time.Duration) Goal {
	var worst *LatencyLine
	var kinds []string
	for i, l := range r.Latency {
		if l.State == stateEmpty || !counts(l) {
			continue
		}
		if l.P99 == nil {
			return Goal{goal, fmt.Sprintf("too few calls of %q", l.Request), Open}
		}
		if !slices.Contains(kinds, l.Request) {
			kinds = append(kinds, l.Request)
		}
		if worst == nil || *l.P99 > *worst.P99 {
			worst = &r.Latency[i]
		}
	}
	if worst == nil {
		return Goal{goal, "nothing measured", Open}
	}
	measured := fmt.Sprintf("%s µs (%d CPUs, %s, %s); the worst of: %s",
		fine(worst.P99), worst.CPUs, worst.Request, worst.State, strings.Join(kinds, "; "))
	return Goal{goal, measured, VerdictOf(*worst.P99 <= float64(most)/float64(time.Microsecond))}
}

// notWorse judges one metric on one machine against all peers that refuse nothing while CPUs are free, or against all
// peers that make a promise.
func notWorse(r *PlaceReport, on string, m placeMetric, promised bool) Goal {
	goal := fmt.Sprintf("%s: %s, none worse", on, m.name)
	if promised {
		goal += ", each under the same promise"
	}
	return r.judgeWorst(goal, m.less, func(c PlaceRatio) Verdict {
		switch {
		case c.On != on || c.Metric != m.name || c.Promised != promised:
			return ""
		case c.Ratio == nil && m.less:
			return Missed // Some, against none.
		case c.Ratio == nil, c.Ratio.Estimate == 1, (c.Ratio.Estimate > 1) != m.less:
			return Met
		case !m.less && c.Ratio.High < 1, m.less && c.Ratio.Low > 1:
			return Missed
		}
		return Open
	})
}

// moreInL3 judges the goal with a margin, among arms that refuse nothing: with a promise the number mostly depends on
// the pods that the promise admits.
func moreInL3(r *PlaceReport, on string, aligns bool) Goal {
	whom := "every peer that knows no L3"
	if aligns {
		whom = "the kubelet with prefer-align-cpus-by-uncorecache"
	}
	goal := fmt.Sprintf("%s: pods admitted in one L3 >= 1.10 × %s", on, whom)
	return r.judgeWorst(goal, false, func(c PlaceRatio) Verdict {
		if c.On != on || c.Metric != metricInL3 || c.AlignsL3 != aligns || c.Promised {
			return ""
		}
		return VerdictOf(c.Ratio == nil || c.Ratio.Low >= goalInL3)
	})
}

// judgeWorst judges each comparison and reports the worst. judge returns "" for a comparison outside the goal.
func (r *PlaceReport) judgeWorst(goal string, less bool, judge func(PlaceRatio) Verdict) Goal {
	badness := map[Verdict]int{Met: 0, Open: 1, Missed: 2}
	var worst *PlaceRatio
	var all Verdict
	for i, c := range r.Comparisons {
		v := judge(c)
		if v == "" {
			continue
		}
		if worst == nil || badness[v] > badness[all] || v == all && farther(c.Ratio, worst.Ratio, less) {
			worst, all = &r.Comparisons[i], v
		}
	}
	if worst == nil {
		return Goal{goal, "nothing measured", Open}
	}
	measured := fmt.Sprintf("one to nothing against %s", worst.Reference)
	if worst.Ratio != nil {
		measured = fmt.Sprintf("%.4f (95 %% %.4f..%.4f) against %s", worst.Ratio.Estimate, worst.Ratio.Low, worst.Ratio.High, worst.Reference)
	}
	if r.Setup.Events < leastTraceEvents || r.Setup.Repetitions < leastTraceRepeats {
		return Goal{goal, fmt.Sprintf("%s; %d × %d events, %d × %d wanted", measured,
			r.Setup.Repetitions, r.Setup.Events, leastTraceRepeats, leastTraceEvents), Open}
	}
	return Goal{goal, measured, all}
}

// farther reports whether a is worse than b; a nil ratio is infinite.
func farther(a, b *load.Ratio, less bool) bool {
	switch {
	case a == nil:
		return less
	case b == nil:
		return !less
	}
	return a.Estimate != b.Estimate && (a.Estimate > b.Estimate) == less
}
