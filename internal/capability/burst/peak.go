package burst

import (
	"math"
	"time"

	"github.com/berth-project/berth/internal/capability/burst/credit"
	"github.com/berth-project/berth/internal/value/unit"
)

// peakSpan is the span of one slot of a peak. peakSlots is the number of slots of a minute, and the current one.
const (
	peakSpan  = 5 * time.Second
	peakSlots = int64(time.Minute/peakSpan) + 1
)

// peak records the use of the last minute, the highest within one period and the mean. It uses slots of time in turn,
// so that a reader clears nothing that another reader needs.
type peak struct {
	at    time.Duration
	usage unit.CPUTime
	slot  int64 // number since boot of the current slot
	slots [peakSlots]span
}

// span is one slot: the highest use in it as a multiple of the limit, and the counter at its beginning.
type span struct {
	ratio float64
	at    time.Duration
	usage unit.CPUTime
}

// add records a reading. It averages the use over at least a period: a shorter mean would make the start of every burst
// a peak.
func (p *peak) add(at time.Duration, usage unit.CPUTime, f credit.Facts) {
	elapsed := at - p.at
	if p.at != 0 && elapsed < f.Period.Duration()*9/10 {
		return
	}
	begin := span{at: p.at, usage: p.usage}
	if p.at == 0 {
		begin = span{at: at, usage: usage}
	}
	for now := int64(at / peakSpan); p.slot < now; {
		p.slot = max(p.slot+1, now-peakSlots+1)
		p.slots[p.slot%peakSlots] = begin
	}
	if p.at != 0 && f.Limit() > 0 {
		rate := usage.Since(p.usage).Seconds().Per(elapsed)
		slot := &p.slots[p.slot%peakSlots]
		slot.ratio = max(slot.ratio, float64(rate/f.Limit()))
	}
	p.at, p.usage = at, usage
}

// first returns the oldest slot of the minute before now.
func (p *peak) first(now time.Duration) int64 {
	return max(p.slot-peakSlots+1, int64(now/peakSpan)-peakSlots+1, 0)
}

// highest returns the peak of the minute before now as a multiple of the limit.
func (p *peak) highest(now time.Duration) float64 {
	ratio := 0.0
	for slot := p.first(now); slot <= p.slot; slot++ {
		ratio = max(ratio, p.slots[slot%peakSlots].ratio)
	}
	return ratio
}

// mean returns the mean use of the minute before now, and whether most of the minute was sampled.
func (p *peak) mean(now time.Duration) (unit.CPUs, bool) {
	for slot := p.first(now); slot <= p.slot; slot++ {
		if s := p.slots[slot%peakSlots]; s.at > 0 && p.at-s.at >= time.Minute*3/4 {
			return p.usage.Since(s.usage).Seconds().Per(p.at - s.at), true
		}
	}
	return 0, false
}

// Estimate is the limits that would suffice for the use of the last minute, in CPUs: the smallest with burst, and the
// smallest without it.
type Estimate struct {
	WithBurst unit.CPUs `json:"withBurstCPUs"`
	Without   unit.CPUs `json:"withoutBurstCPUs"`
}

// spare is the factor by which a limit must exceed the mean use for its credit to last.
const spare = 1.1

// Estimate returns the limits that would suffice for the group, nil if its use does not show them. A group that is not
// at the ceiling of its policy may need more than it uses.
func (g *Group) Estimate() *Estimate {
	mean, known := g.peak.mean(g.Facts.At)
	without := g.Facts.Limit() * unit.CPUs(g.Peak())
	if !known || g.Decision.Reason != credit.AtCeiling {
		return nil
	}
	with := max(mean*spare, without*100/unit.CPUs(g.Policy.QuotaPercent), hundredth)
	for with < without && !g.raisedAt(with) {
		with *= spare
	}
	if with >= without {
		return nil
	}
	return &Estimate{WithBurst: roundUp(with), Without: roundUp(without)}
}

// raisedAt reports whether the group would be at the ceiling of its policy with this limit and full credit.
func (g *Group) raisedAt(limit unit.CPUs) bool {
	f := g.Facts
	f.LimitQuota, f.Standing = limit.Quota(f.Period), limit.Quota(f.Period)
	f.Ceiling, f.Burst = unit.CPUs(math.Inf(1)), min(f.Burst, limit.Quota(f.Period))
	_, d := credit.Decide(g.Policy, credit.Open(g.Policy, f, false), f, credit.MinLook)
	return d.Reason == credit.AtCeiling
}

// hundredth is the unit to which an estimate is rounded up.
const hundredth unit.CPUs = 0.01

func roundUp(c unit.CPUs) unit.CPUs { return unit.CPUs(math.Ceil(float64(c)*100-1e-9) / 100) }
