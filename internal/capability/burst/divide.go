package burst

import (
	"time"

	"github.com/berth-project/berth/internal/capability/burst/credit"
	"github.com/berth-project/berth/internal/capability/burst/headroom"
	"github.com/berth-project/berth/internal/value/unit"
)

// Divide sets each group's ceiling to what the node leaves it at the moment now.
func Divide(p *headroom.Pool, now time.Duration, groups []*Group) {
	if p.Unknown() {
		// Nothing rises. What an earlier agent raised is not lowered only because the use is not known yet.
		for _, g := range groups {
			g.Facts.Ceiling = max(unit.Rate(g.Facts.Standing, g.Facts.Period), g.Facts.Limit())
		}
		return
	}
	demands := make([]headroom.Demand, len(groups))
	for i, g := range groups {
		demands[i] = headroom.Demand{ID: g.Name, Limit: g.Facts.Limit(), Ceiling: g.Ceiling(), Reach: credit.Reach(g.Policy, g.Facts)}
	}
	shares := p.Shares(demands)
	for i, g := range groups {
		g.guard, g.Facts.Ceiling = g.guard.Next(now, demands[i], shares[i])
		g.holdForResize(now)
	}
}
