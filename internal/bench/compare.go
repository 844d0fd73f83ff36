package bench

import (
	"fmt"
	"slices"
	"time"

	"github.com/berth-project/berth/internal/load"
)

// The arms, in the order of the table.
const (
	Unlimited   = "unlimited"
	Unlimited2  = "unlimited again"
	QuotaOnly   = "quota only"
	KernelBurst = "kernel burst"
	Koordinator = "koordinator emulation"
	Berth       = "berth"
)

// ArmNames lists the arms of bench burst in the order of its table.
func ArmNames() []string {
	return []string{Unlimited, QuotaOnly, KernelBurst, Koordinator, Berth, Unlimited2}
}

// peerWindow is the window in which the peer is still raising its quota.
const peerWindow = 40 * time.Second

// compared are the quantiles of the ratio lines.
func compared() []float64 { return []float64{0.5, 0.99, 0.999} }

// Compare makes all ratio lines: every arm but the first, which is the
// unlimited one, against that, and where it is among them, Berth against the
// Koordinator emulation, over everything and over the first 40 s.
func Compare(repetitions []Repetition, arms []string) []RatioLine {
	var lines []RatioLine
	for _, arm := range arms[1:] {
		for _, q := range compared() {
			lines = append(lines, compare(repetitions, arm, Unlimited, q, 0))
		}
	}
	if !slices.Contains(arms, Koordinator) {
		return lines
	}
	for _, window := range []time.Duration{0, peerWindow} {
		for _, q := range compared() {
			lines = append(lines, compare(repetitions, Berth, Koordinator, q, window))
		}
	}
	return lines
}

// compare makes one line; window 0 means everything.
func compare(repetitions []Repetition, arm, reference string, q float64, window time.Duration) RatioLine {
	line := RatioLine{Arm: arm, Reference: reference, Quantile: quantileName(q), Window: "all"}
	if window > 0 {
		line.Window = fmt.Sprintf("first %.0f s", window.Seconds())
	}
	pairs := make([]load.Pair, 0, len(repetitions))
	for _, r := range repetitions {
		pair := load.Pair{Arm: r[arm].Samples, Reference: r[reference].Samples}
		if window > 0 {
			pair.Arm, pair.Reference = load.Before(pair.Arm, window), load.Before(pair.Reference, window)
		}
		pairs = append(pairs, pair)
		if ratio, ok := plainRatio(pair, q); ok {
			line.PerRepetition = append(line.PerRepetition, ratio)
		}
	}
	if ratio, ok := load.PairedRatio(pairs, q); ok {
		line.Ratio = &ratio
	}
	return line
}

// plainRatio is the ratio of one repetition's quantiles.
func plainRatio(pair load.Pair, q float64) (float64, bool) {
	arm, armOK := load.Quantile(load.Sorted(pair.Arm), q)
	reference, referenceOK := load.Quantile(load.Sorted(pair.Reference), q)
	if !armOK || !referenceOK || reference <= 0 {
		return 0, false
	}
	return float64(arm) / float64(reference), true
}

func quantileName(q float64) string { return fmt.Sprintf("p%g", 100*q) }

// find returns the line of a comparison; its Ratio is nil when there is none.
func find(lines []RatioLine, arm, reference, quantile, window string) RatioLine {
	for _, l := range lines {
		if l.Arm == arm && l.Reference == reference && l.Quantile == quantile && l.Window == window {
			return l
		}
	}
	return RatioLine{}
}
