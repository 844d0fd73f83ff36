package place

import (
	"maps"

	"github.com/berth-project/berth/internal/capability/place/grant"
	"github.com/berth-project/berth/internal/capability/place/placement"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// fitMemory returns the grant without the memory nodes of its placement that are not known to have room, by the rule of
// placement.Decide: the writer of the placement may not have known all pods of this node. A decision of this Node
// on this machine remains, and so do the memory nodes of a running container, whose memory is there already. A provisional pod remains
// as it is, since nothing is known about it that could be compared.
func (n *Node) fitMemory(c *claim, g *grant.Grant, o *placement.Occupancy) *grant.Grant {
	if c.whole || len(c.real) > 0 || !c.pod.real() || g.From == grant.ByRuntime {
		return g
	}
	mems := make(map[string]cpuset.Set, len(g.Parts))
	for name, one := range g.Parts {
		if !one.Bare() {
			mems[name] = one.Mems
		}
	}
	wider, changed := *g, false
	wider.Parts = maps.Clone(g.Parts)
	node := n.nodeFor(c.pod)
	for name, nodes := range node.Narrow(n.claims.beside(&n.facts, c.pod, o), &c.pod.asked.pin, mems) {
		one := wider.Parts[name]
		changed = changed || one.Mems != nodes
		one.Mems = nodes
		wider.Parts[name] = one
	}
	if !changed {
		return g
	}
	var was grant.Total
	for name, one := range g.Parts {
		if one.Mems != wider.Parts[name].Mems {
			was.Add(one)
		}
	}
	c.pod.has.widened = was.Part().Mems
	return wider.On(n.facts.Machine, c.pod.asked.pin)
}

// memoryWhy returns what is wrong with the memory nodes of the pod, as the end of a sentence, or "".
func (d *decided) memoryWhy(mems cpuset.Set) string {
	switch {
	case mems.IsEmpty():
		return ""
	case d.overbound:
		return "; NUMA nodes " + mems.String() + " have less memory than is bound to them: it keeps them, as its memory is there"
	case !d.widened.IsEmpty():
		return "; memory nodes " + mems.String() + ": NUMA nodes " + d.widened.String() + " of its placement are not known to have room"
	}
	return ""
}
