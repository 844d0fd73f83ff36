package bench

import (
	"fmt"
	"slices"
	"time"

	"github.com/berth-project/berth/internal/proof/load"
)

// The arms, in the order of the table.
const (
	Unlimited   = "unlimited"
	Unlimited2  = "unlimited again"
	QuotaOnly   = "quota only"
	KernelBurst = "kernel burst"
	Koordinator = "koordinator emulation"
	Berth       = "berth"
	// GoDefault is Berth with a server whose GOMAXPROCS follows the quota. It runs only on request: it matters on
	// machines with more CPUs than the limit.
	GoDefault = "go default"
	// GoDefaultAlone is the server of GoDefault under the limit without Berth, the control of that arm.
	GoDefaultAlone = "go default limit only"
	// Peer is the arm of another agent, if any.
	Peer = "peer"
)

// ArmNames lists the arms of bench burst in the order of its table.
func ArmNames() []string {
	return []string{Unlimited, QuotaOnly, KernelBurst, Koordinator, Berth, Unlimited2}
}

// RequestedArmNames lists the arms that run only on request.
func RequestedArmNames() []string { return []string{GoDefault, GoDefaultAlone} }

// AllArmNames lists ArmNames and the arms that run only on request.
func AllArmNames() []string {
	names := ArmNames()
	return slices.Insert(names, len(names)-1, RequestedArmNames()...)
}

// arms returns the arms to run, in the order of the table.
func (o BurstOptions) arms() []string {
	names := ArmNames()
	if len(o.Arms) > 0 {
		names = slices.DeleteFunc(AllArmNames(), func(name string) bool { return !slices.Contains(o.Arms, name) })
	}
	if len(o.Peer.Command) == 0 {
		return names
	}
	at := slices.Index(names, Unlimited2)
	if at < 0 {
		at = len(names)
	}
	return slices.Insert(names, at, Peer)
}

// peerWindow is the window in which the peer is still raising its quota.
const peerWindow = 40 * time.Second

// compared returns the quantiles of the ratio lines.
func compared() []float64 { return []float64{0.5, 0.99, 0.999} }

// comparison is two arms of which the first is compared with the second.
type comparison struct{ arm, reference string }

// comparisons are the arms that are compared with each other, if both ran. GoDefault is compared with Berth, whose server
// does not follow the quota, and with the same server whose quota does not move.
func comparisons() []comparison {
	return []comparison{{GoDefault, Berth}, {GoDefault, GoDefaultAlone}, {Berth, Peer}, {Berth, Koordinator}}
}

// Compare returns all ratio lines. It compares every arm with the first arm, which is unlimited, and then some with each
// other. The Koordinator emulation is compared over everything and over the first 40 s.
func Compare(repetitions []Repetition, arms []string) []RatioLine {
	var lines []RatioLine
	for _, arm := range arms[1:] {
		lines = append(lines, compareAll(repetitions, arm, Unlimited, 0)...)
	}
	for _, c := range comparisons() {
		if !slices.Contains(arms, c.arm) || !slices.Contains(arms, c.reference) {
			continue
		}
		lines = append(lines, compareAll(repetitions, c.arm, c.reference, 0)...)
		if c.reference == Koordinator {
			lines = append(lines, compareAll(repetitions, c.arm, c.reference, peerWindow)...)
		}
	}
	return lines
}

// compareAll returns a line for each quantile.
func compareAll(repetitions []Repetition, arm, reference string, window time.Duration) []RatioLine {
	var lines []RatioLine
	for _, q := range compared() {
		lines = append(lines, compare(repetitions, arm, reference, q, window))
	}
	return lines
}

// compare returns one line; window 0 means everything.
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
	if median, ok := load.PairedMedian(pairs, q); ok {
		line.Median = &median
	}
	line.Stretches = load.Stretches(pairs, q)
	return line
}

// plainRatio returns the ratio of one repetition's quantiles.
func plainRatio(pair load.Pair, q float64) (float64, bool) {
	arm, armOK := load.Quantile(load.Sorted(pair.Arm), q)
	reference, referenceOK := load.Quantile(load.Sorted(pair.Reference), q)
	if !armOK || !referenceOK || reference <= 0 {
		return 0, false
	}
	return float64(arm) / float64(reference), true
}

func quantileName(q float64) string { return fmt.Sprintf("p%g", 100*q) }

// find returns the line of a comparison, or a zero RatioLine without one.
func find(lines []RatioLine, arm, reference, quantile, window string) RatioLine {
	for _, l := range lines {
		if l.Arm == arm && l.Reference == reference && l.Quantile == quantile && l.Window == window {
			return l
		}
	}
	return RatioLine{}
}
