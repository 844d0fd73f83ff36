package place

import (
	"maps"
	"slices"

	"github.com/berth-project/berth/internal/capability/place/grant"
	"github.com/berth-project/berth/internal/capability/place/placement"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// fitMemory returns the grant without the memory nodes that are not known to have room, by the rule of placement.Decide:
// the writer of a placement may not have known all pods of this node, and the machine may have changed since a decision.
// A running container keeps its memory nodes, as its memory is there already. So does a pod that had its grant before
// one of its containers was created, by this Node or by the journal: they may have been written, whatever CPUs the
// container was seen on. A provisional pod remains as it is, since nothing is known about it that could be compared. Where
// another program sets memory nodes, a placement only says where the scheduler counts the memory.
func (n *Node) fitMemory(c *claim, g *grant.Grant, o *placement.Occupancy) *grant.Grant {
	if n.facts.MemsOwner != "" || c.whole || c.created() || len(c.real) > 0 || !c.pod.real() || g.From == grant.ByRuntime {
		return g
	}
	mems := make(map[string]cpuset.Set, len(g.Parts))
	for name, one := range g.Parts {
		if !one.Bare() {
			mems[name] = one.Mems
		}
	}
	wider := *g
	wider.Parts, wider.Widened = maps.Clone(g.Parts), map[string]cpuset.Set{}
	maps.Copy(wider.Widened, g.Widened)
	changed := false
	node := n.nodeFor(c.pod)
	for name, nodes := range node.Narrow(n.claims.beside(&n.facts, c.pod, o), &c.pod.asked.pin, mems) {
		one := wider.Parts[name]
		if one.Mems == nodes {
			continue
		}
		changed, wider.Widened[name] = true, one.Mems
		one.Mems = nodes
		wider.Parts[name] = one
	}
	if !changed {
		return g
	}
	return wider.On(n.facts.Machine, c.pod.asked.pin)
}

// keepMade adds the memory nodes with which containers were made. An earlier agent answered them, and may have ended
// before it wrote them to the placement. An init container has those of the app containers.
func (s *claims) keepMade(c *claim) {
	for _, m := range c.pod.containers {
		if m.Made == nil || !m.live() {
			continue
		}
		if g, lacked := c.has.Reaching(m.Made.CPUs, m.Made.Mems.Intersect(s.machine.Topology().MemoryNodes())); lacked {
			c.has, c.whole, c.wider = g, false, true
		}
	}
}

// created reports whether the memory nodes of the claim may have been written to a container that was created.
func (c *claim) created() bool {
	if c.pod.has.grant != nil {
		return c.pod.began()
	}
	return slices.ContainsFunc(c.pod.containers, func(one *container) bool { return one.live() && one.Pinned && !one.Sandbox })
}

// memoryWhy returns what is wrong with the memory nodes of a container, as the end of a sentence, or "". A container
// with all memory nodes is bound to none.
func (d *decided) memoryWhy(name string, mems cpuset.Set) string {
	was, bound := d.grant.Widened[name], !mems.IsEmpty() && mems != d.grant.Machine.Topology().MemoryNodes()
	switch {
	case bound && mems.IsSubsetOf(d.overbound):
		return "; NUMA nodes " + d.overbound.String() + " have less memory than is bound to them: its memory nodes stay while it runs"
	case !mems.IsEmpty() && !was.IsEmpty():
		return "; memory nodes " + mems.String() + ", because NUMA nodes " + was.String() + " alone were not known to have room for it"
	}
	return ""
}
