package place

import (
	"maps"

	"github.com/berth-project/berth/internal/cpuset"
	"github.com/berth-project/berth/internal/placement"
)

// fitMemory returns the grant without the memory nodes that its placement names and that
// are not known to have room, by the rule of placement.Decide: the writer of the
// placement may not have known all pods of this node. What was decided here
// before stays, and so does what a container runs with: its memory is there already.
// Of a provisional pod nothing is known that could be compared.
func (n *Node) fitMemory(c *claim, g *grant, o *placement.Occupancy) *grant {
	if c.whole || len(c.real) > 0 || !c.pod.real() || g.from != byScheduler {
		return g
	}
	mems := make(map[string]cpuset.Set, len(g.parts))
	for name, one := range g.parts {
		if !one.bare() {
			mems[name] = one.mems
		}
	}
	wider, changed := *g, false
	wider.parts = maps.Clone(g.parts)
	for name, nodes := range n.nodeFor(c.pod).Narrow(o, &c.pod.pin, mems) {
		one := wider.parts[name]
		changed = changed || one.mems != nodes
		one.mems = nodes
		wider.parts[name] = one
	}
	if !changed {
		return g
	}
	return wider.on(n.facts.Machine, c.pod.pin)
}
