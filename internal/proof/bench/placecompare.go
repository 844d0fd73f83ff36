package bench

import (
	"github.com/berth-project/berth/internal/proof/load"
)

// placeMetric is one figure of a trace, as a share, so that pods that an arm refused do not flatter its other pods.
type placeMetric struct {
	name string
	// less is true if less is better.
	less  bool
	share func(PlaceCounts) load.Share
}

// The metrics, in the order of the table.
const (
	metricAdmitted = "pods admitted"
	metricOneNUMA  = "share in one NUMA node"
	metricOneL3    = "share in one L3"
	metricShared   = "cores shared with another pod"
	metricInL3     = "pods admitted in one L3"
)

func placeMetrics() []placeMetric {
	of := func(part, whole int) load.Share { return load.Share{Part: float64(part), Whole: float64(whole)} }
	return []placeMetric{
		{metricAdmitted, false, func(c PlaceCounts) load.Share { return of(c.Admitted, 1) }},
		{metricOneNUMA, false, func(c PlaceCounts) load.Share { return of(c.OneNUMA, c.Admitted) }},
		{metricOneL3, false, func(c PlaceCounts) load.Share { return of(c.OneL3, c.Admitted) }},
		{metricShared, true, func(c PlaceCounts) load.Share { return of(c.SharedCores, c.Admitted) }},
		{metricInL3, false, func(c PlaceCounts) load.Share { return of(c.OneL3, 1) }},
	}
}

func (m placeMetric) of(a PlaceArm) []load.Share {
	shares := make([]load.Share, len(a.Counts))
	for i, c := range a.Counts {
		shares[i] = m.share(c)
	}
	return shares
}

// mean returns the metric over all traces, 0 without traces.
func (m placeMetric) mean(a PlaceArm) float64 {
	var sum load.Share
	for _, s := range m.of(a) {
		sum.Part, sum.Whole = sum.Part+s.Part, sum.Whole+s.Whole
	}
	if sum.Whole == 0 {
		return 0
	}
	return sum.Part / sum.Whole
}

// comparePlaces compares each peer with Berth on the same machine under the same promise.
func comparePlaces(arms []PlaceArm) []PlaceRatio {
	kinds := map[string]placeArm{}
	for _, a := range placeArms() {
		kinds[a.name] = a
	}
	var ratios []PlaceRatio
	var berth PlaceArm
	for _, a := range arms {
		if kinds[a.Name].berth {
			berth = a // The first arm of each promise.
			continue
		}
		for _, m := range placeMetrics() {
			line := PlaceRatio{
				On: a.On, Arm: berth.Name, Reference: a.Name, Metric: m.name,
				AlignsL3: kinds[a.Name].alignsL3, Promised: a.Promise != promiseNone, Better: "greater",
			}
			if m.less {
				line.Better = "less"
			}
			if ratio, ok := load.PairedShares(m.of(berth), m.of(a)); ok {
				line.Ratio = &ratio
			} else if m.mean(berth) == m.mean(a) {
				line.Ratio = &load.Ratio{Estimate: 1, Low: 1, High: 1} // Nothing in either arm.
			}
			ratios = append(ratios, line)
		}
	}
	return ratios
}
