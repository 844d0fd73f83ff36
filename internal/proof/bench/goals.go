package bench

import "fmt"

// The figures to reach.
const (
	goalP99           = 1.05
	goalP999          = 1.15
	goalQuotaOnly     = 3.0
	goalPeer          = 0.85
	goalThrottled     = 0.01
	leastThrottled    = 300
	goalAbuser        = 1.01
	goalWritesPerSec  = 0.05
	leastRequestsP99  = 10_000
	leastRequestsP999 = 100_000
	// A verdict on a ratio needs so many repetitions, or so many stretches of the one repetition that was asked for.
	leastRepetitions   = 3
	leastLongStretches = 30
)

// judge compares a burst report with the figures to reach. It judges a ratio by the upper end of the interval of its
// paired median. A goal is open if the run did not meet its precondition (too few requests, too little throttling).
// Missing arms are not judged.
func judge(r *Report) []Goal {
	first := fmt.Sprintf("first %.0f s", peerWindow.Seconds())
	goals := []Goal{
		ratioGoal(r, "p99 with Berth <= 1.05 × unlimited", find(r.Ratios, Berth, Unlimited, "p99", "all"), goalP99),
		ratioGoal(r, "p99.9 with Berth <= 1.15 × unlimited", find(r.Ratios, Berth, Unlimited, "p99.9", "all"), goalP999),
		quotaOnlyGoal(r),
	}
	if arm(r, Koordinator).Name != "" {
		goals = append(goals, ratioGoal(r, "p99 with Berth <= 0.85 × the Koordinator emulation, "+first,
			find(r.Ratios, Berth, Koordinator, "p99", first), goalPeer))
	}
	goals = append(goals, throttledGoal(r))
	goals = append(goals, neighbourGoals(r)...)
	for _, a := range r.Abusers {
		goals = append(goals, Goal{
			Goal:     fmt.Sprintf("mean of the abuser (%s) after its credit <= 1.01 × limit", a.Mode),
			Measured: fmt.Sprintf("%.4f over %.0f s", a.OverLimit, a.Seconds),
			Verdict:  VerdictOf(a.OverLimit <= goalAbuser && a.Seconds > 0),
		}, boundGoal(a))
	}
	return append(goals, writesGoal(r))
}

// VerdictOf returns Met or Missed.
func VerdictOf(met bool) Verdict {
	if met {
		return Met
	}
	return Missed
}

// ratioGoal judges by the interval of the paired median. If the interval contains the goal, and the two unlimited arms
// differ at the same quantile by more than the goals allow, the machine is too noisy for a verdict.
func ratioGoal(r *Report, goal string, line RatioLine, most float64) Goal {
	if line.Median == nil {
		return Goal{goal, "too few requests", Open}
	}
	measured := fmt.Sprintf("%.3f (95 %% %.3f..%.3f)", line.Median.Estimate, line.Median.Low, line.Median.High)
	enough := leastRequestsP99 * max(r.Repetitions, 1)
	if line.Quantile == "p99.9" {
		enough = leastRequestsP999
	}
	if n := arm(r, line.Arm).Requests; n < enough {
		return Goal{goal, fmt.Sprintf("%s from %d requests, %d wanted", measured, n, enough), Open}
	}
	if few, wanted := r.tooFew(line); few {
		return Goal{goal, measured + wanted, Open}
	}
	if line.Median.High > most && line.Median.Low <= most && r.noisyAt(line.Quantile) {
		return Goal{goal, measured + "; the machine is too noisy", Open}
	}
	return Goal{goal, measured, VerdictOf(line.Median.High <= most)}
}

// tooFew reports whether a line has too few repetitions for a verdict, and says how many are wanted.
func (r *Report) tooFew(line RatioLine) (few bool, wanted string) {
	isLong := r.Repetitions == 1 && line.Stretches >= leastLongStretches
	return r.Repetitions < leastRepetitions && !isLong, fmt.Sprintf(" from %d repetitions and %d stretches; %d repetitions wanted, or one of %d stretches",
		r.Repetitions, line.Stretches, leastRepetitions, leastLongStretches)
}

// floor returns the line of the two unlimited arms: smaller differences are noise. Its median is nil if unknown.
func (r *Report) floor() RatioLine { return r.floorAt("p99") }

func (r *Report) floorAt(quantile string) RatioLine {
	return find(r.Ratios, Unlimited2, Unlimited, quantile, "all")
}

// noisy reports whether the two unlimited arms differ by more than judged arms may.
func (r *Report) noisy() bool { return r.noisyAt("p99") }

// noisyAt is noisy at a quantile: p99.9 has its own noise, and its own goal.
func (r *Report) noisyAt(quantile string) bool {
	m, most := r.floorAt(quantile).Median, goalP99
	if quantile == "p99.9" {
		most = goalP999
	}
	return m != nil && (m.High > most || m.Low < 1/most)
}

func quotaOnlyGoal(r *Report) Goal {
	const goal = "the limit alone costs: p99 quota only >= 3 × unlimited"
	line := find(r.Ratios, QuotaOnly, Unlimited, "p99", "all")
	if line.Median == nil {
		return Goal{goal, "too few requests", Open}
	}
	return Goal{goal, fmt.Sprintf("%.2f", line.Median.Estimate), VerdictOf(line.Median.Estimate >= goalQuotaOnly)}
}

func throttledGoal(r *Report) Goal {
	const goal = "throttled periods (with ancestors) >= 99 % fewer than quota only"
	quota, berth := arm(r, QuotaOnly), arm(r, Berth)
	return fewerThrottled(goal, berth.Throttled+berth.Above, quota.Throttled+quota.Above)
}

// fewerThrottled judges the throttled periods with Berth and without it. It is open if hardly any were to be saved.
func fewerThrottled(goal string, with, without uint64) Goal {
	measured := fmt.Sprintf("%d against %d", with, without)
	if without < leastThrottled {
		return Goal{goal, fmt.Sprintf("%s, at least %d wanted", measured, leastThrottled), Open}
	}
	return Goal{goal, measured, VerdictOf(float64(with) <= goalThrottled*float64(without))}
}

func writesGoal(r *Report) Goal {
	const goal = "steady state <= 0.05 writes a second a group"
	seconds := r.Setup.ArmSeconds * float64(r.Repetitions)
	if seconds <= 0 {
		return Goal{goal, "nothing measured", Open}
	}
	writes := arm(r, Berth).WritesUnderLoad
	groups := 1 + r.Setup.Neighbours
	rate := float64(writes) / seconds / float64(groups)
	return Goal{goal, fmt.Sprintf("%.3f (%d in %.0f s of load, groups: %d)", rate, writes, seconds, groups), VerdictOf(rate <= goalWritesPerSec)}
}

func arm(r *Report, name string) ArmSummary {
	for _, a := range r.Arms {
		if a.Name == name {
			return a
		}
	}
	return ArmSummary{}
}
