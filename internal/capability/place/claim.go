package place

import (
	"maps"
	"slices"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability/place/alloc"
	"github.com/berth-project/berth/internal/capability/place/grant"
	"github.com/berth-project/berth/internal/capability/place/placement"
	"github.com/berth-project/berth/internal/intent/workload"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// claim is what a pod claims to have, before it is compared with other claims.
type claim struct {
	pod *pod
	// has is the claimed grant, with its origin.
	has grant.Grant
	// real has the CPUs of their parts that containers run on, by name; realCPUs is their union.
	real     map[string]cpuset.Set
	realCPUs cpuset.Set
	// cause is why the pod does not get all it claimed, or ""; reason is the reason of the event.
	cause, reason string
	// whole says that this is the unchanged grant, on this machine.
	whole bool
	// wider says that keepMade added memory nodes, which the placement may lack.
	wider bool
}

// claims are the claims of all pods of a node, in the order that decides between them.
type claims struct {
	machine *alloc.Machine
	pods    []*pod
	all     []*claim
	// requested has the machine, and the requests of all pods. They do not change while claims are decided.
	requested placement.Node
	// given are the pods without a placement to which the kubelet gave memory.
	given []*pod
	// memory is the storage of the claims.
	memory []claim
}

// lose removes parts from the claim: the pod must be placed again.
func (c *claim) lose(reason, cause string, names ...string) {
	if c.cause == "" {
		c.reason, c.cause = reason, cause
	}
	c.has.Parts = maps.Clone(c.has.Parts)
	for _, name := range names {
		delete(c.has.Parts, name)
		delete(c.real, name)
		c.pod.unsettle(name)
	}
	c.whole, c.pod.pending = false, true
	c.sum()
}

func (c *claim) loseAll(reason, cause string) {
	c.lose(reason, cause, sortedNames(c.has.Parts)...)
}

// runs records that a container runs on CPUs of its part.
func (c *claim) runs(name string, cpus cpuset.Set) {
	if cpus.IsEmpty() {
		return
	}
	if c.real == nil {
		c.real = map[string]cpuset.Set{}
	}
	c.real[name] = c.real[name].Union(cpus)
}

func (c *claim) sum() {
	c.realCPUs = cpuset.Set{}
	for _, cpus := range c.real {
		c.realCPUs = c.realCPUs.Union(cpus)
	}
}

// read computes the claim of a pod: its grant, else the CPUs that its containers run on, else its placement.
func (s *claims) read(c *claim) {
	p := c.pod
	switch {
	case p.over():
		p.has.guess = nil
		return
	case p.has.grant != nil:
		c.has, c.whole = *p.has.grant, p.has.grant.Machine == s.machine
		s.remember(c)
		s.keepMade(c)
		if !c.whole {
			s.cut(c)
		}
	case p.pending:
		s.adopt(c)
		s.keepMade(c)
		p.has.guess, c.has.Burst = nil, p.asked.pin.StaticBurst
	}
	s.findReal(c)
	if x := p.spec.Excluded; x.Why != "" && !x.KeepsOwn && len(c.real) == 0 {
		c.has.Parts, c.whole = nil, false // the exclusion was found after the grant
	}
}

// placed decodes the placement of a pod that asks for exclusive CPUs, or asked before it ended. It is empty for others.
func (c *claim) placed() (v1alpha1.Placement, v1alpha1.FieldErrors) {
	p := c.pod
	text := p.spec.Annotations[v1alpha1.AnnotationPlacement]
	if text == "" || !p.known || !p.asked.pin.Wanted || p.spec.Excluded.Why != "" {
		return v1alpha1.Placement{}, nil
	}
	return v1alpha1.DecodePlacement(text)
}

// remember adds the NUMA nodes of the placement to parts that were found running before the pod was known. Otherwise a
// container that starts again would have no memory nodes.
func (s *claims) remember(c *claim) {
	if !c.pod.asks() || !c.has.Bare() {
		return
	}
	placed, _ := c.placed()
	parts := maps.Clone(c.has.Parts)
	for name, one := range parts {
		written := placement.PartOf(placed.Containers[name])
		if !one.Bare() || written.CPUs != one.CPUs {
			continue
		}
		if one.Mems = s.memsBeside(one.CPUs, written.Mems); !one.Bare() {
			parts[name], c.whole = one, false
		}
	}
	c.has.Parts = parts
}

// memsBeside returns the NUMA nodes that a placement names for CPUs, or none if it omits a node of these CPUs. A user
// who may edit the pod may write anything there: a container that runs on the CPUs keeps them, but must not lose the
// memory next to them.
func (s *claims) memsBeside(cpus, mems cpuset.Set) cpuset.Set {
	memory := s.machine.Topology().MemoryNodes()
	if !s.machine.Topology().NodesOf(cpus).Intersect(memory).IsSubsetOf(mems) {
		return cpuset.Set{}
	}
	return mems.Intersect(memory)
}

// findReal records which parts containers run on. An init container that runs on CPUs of the app containers, all or
// some, holds these CPUs for them. A container in the pool, as in a pod that was refused, holds nothing: the pool may
// have the CPUs of its placement.
func (s *claims) findReal(c *claim) {
	if len(c.has.Parts) == 0 {
		return
	}
	for _, m := range c.pod.containers {
		if !m.live() || m.Sandbox || m.pooled {
			continue
		}
		cpus := m.CPUs.Intersect(s.pinnable())
		if one, found := c.has.Parts[m.Name]; found {
			if m.runsOn(c.pod.ownOf(&c.has, m, cpus), one.CPUs, c.has.Beside) {
				c.runs(m.Name, one.CPUs)
			}
		} else if c.pod.kind(m) == initial && !cpus.IsEmpty() && cpus.IsSubsetOf(c.pod.apps(c.has.Parts).CPUs.Union(c.has.Beside)) {
			if cpus.Intersects(c.has.Beside) {
				cpus = c.pod.apps(c.has.Parts).CPUs // it moves with the app containers
			}
			c.pod.eachApp(c.has.Parts, func(name string, one grant.Part) { c.runs(name, one.CPUs.Intersect(cpus)) })
		}
	}
	c.sum()
}

// runsOn reports whether a container has its part: it runs on all or some of the part, had the part before its last
// change, or is on CPUs that its pod leaves in a move.
func (c *container) runsOn(cpus, part, left cpuset.Set) bool {
	c.settled = c.settled || c.verified && cpus == part
	return c.settled || !cpus.IsEmpty() && cpus.IsSubsetOf(part.Union(left))
}

// cut removes the CPUs from a grant that the machine no longer has.
func (s *claims) cut(c *claim) {
	left, lost := make(map[string]grant.Part, len(c.has.Parts)), cpuset.Set{}
	known := s.machine.Topology().MemoryNodes()
	for name, one := range c.has.Parts {
		lost = lost.Union(one.CPUs.Difference(s.pinnable()))
		one.CPUs, one.First, one.Mems = one.CPUs.Intersect(s.pinnable()), one.First.Intersect(s.pinnable()), one.Mems.Intersect(known)
		if !one.CPUs.IsEmpty() {
			left[name] = one
		}
	}
	c.has.Parts, c.has.Beside = left, c.has.Beside.Intersect(s.pinnable())
	if !lost.IsEmpty() {
		c.pod.pending = true
		c.reason, c.cause = v1alpha1.EventCPUPinFailed, "CPUs "+lost.String()+" cannot be used any more"
	}
}

// adopt reads the claim of a pod about which nothing is decided yet.
func (s *claims) adopt(c *claim) {
	p := c.pod
	placed, problems := c.placed()
	if p.asks() {
		var cause string
		if c.has, cause = grant.Read(s.machine, &p.asked.pin, placed, problems); cause != "" {
			c.reason, c.cause = v1alpha1.EventPlacementRefused, cause
		}
	}
	runs := s.running(p, placed)
	if len(runs) == 0 {
		return
	}
	if c.has.Parts == nil {
		c.has = grant.Grant{Parts: map[string]grant.Part{}, From: grant.ByRuntime, Exclusive: c.has.Exclusive, NUMAExclusive: c.has.NUMAExclusive}
	}
	var own cpuset.Set
	for name, one := range runs {
		if old := c.has.Parts[name]; old.CPUs != one.CPUs {
			c.has.From = grant.ByRuntime
			c.has.Parts[name] = one
		}
		own = own.Union(one.CPUs)
	}
	for name, one := range c.has.Parts {
		if _, found := runs[name]; !found && one.CPUs.Intersects(own) && !p.asked.pin.PerPod {
			delete(c.has.Parts, name)
		}
	}
	if p.asked.pin.PerPod {
		c.has.Parts = shared(c.has.Parts, runs)
	}
}

// shared returns the parts of containers that share one set: all CPUs of the running containers.
func shared(parts, runs map[string]grant.Part) map[string]grant.Part {
	var sum grant.Total
	for _, run := range runs {
		sum.Add(run)
	}
	all := make(map[string]grant.Part, len(parts))
	for name := range parts {
		all[name] = sum.Part()
	}
	return all
}

// running returns the parts that containers of the pod have according to the kernel. These are CPUs that Berth gave
// them, and, if the pod asks, also CPUs that its placement gives them. An ended pod no longer asks, but its placement
// still says which of the CPUs from Berth are reserved.
func (s *claims) running(p *pod, placed v1alpha1.Placement) map[string]grant.Part {
	var runs map[string]grant.Part
	for _, m := range p.containers {
		one, has := s.found(p, m, placement.PartOf(placed.Containers[m.Name]))
		if !has {
			continue
		}
		if runs == nil {
			runs = map[string]grant.Part{}
		}
		runs[m.Name] = one
	}
	return runs
}

// found returns the part that one container has according to the kernel; written is its part in the placement.
func (s *claims) found(p *pod, m *container, written placement.Part) (grant.Part, bool) {
	one := grant.Part{CPUs: m.CPUs.Intersect(s.pinnable())}
	if one.CPUs.IsEmpty() || m.pooled || !p.mayHold(m) {
		return grant.Part{}, false
	}
	given := m.own && m.holdsGiven(s.pinnable())
	if p.asked.pin.StaticBurst && given {
		if one.CPUs = s.foundReserved(p, m, written.CPUs); one.CPUs.IsEmpty() {
			return grant.Part{}, false
		}
	}
	if guess, guessed := p.guessed(m); guessed {
		return grant.Part{CPUs: guess.CPUs.Intersect(s.pinnable()), Mems: guess.Mems.Intersect(s.machine.Topology().MemoryNodes())}, true
	}
	if written.CPUs.Intersect(s.pinnable()) == one.CPUs {
		one.Mems, one.First = s.memsBeside(one.CPUs, written.Mems), written.First.Intersect(one.CPUs)
		return one, given || p.asks()
	}
	return one, given
}

// holdsGiven reports whether a container runs on exclusive CPUs that Berth gave it. It is false if another program has
// set other CPUs since. It is also false if all given CPUs went offline: then the kernel uses the CPUs of the group
// above (guarantee_online_cpus in kernel/cgroup/cpuset.c).
func (c *container) holdsGiven(online cpuset.Set) bool {
	return c.Pinned && c.CPUs.IsSubsetOf(c.Given) && c.Given.Intersects(online)
}

// mayHold reports whether a container may have exclusive CPUs, as far as its pod is known: in a pod that is over, a
// container of any kind may have had them.
func (p *pod) mayHold(m *container) bool {
	return m.live() && !m.Sandbox && (!p.known || p.spec.Ended || p.kind(m) <= sidecar)
}

// guessed returns what a container was granted while its pod was provisional, if it runs on these CPUs and should have
// exclusive CPUs.
func (p *pod) guessed(m *container) (grant.Part, bool) {
	if p.has.guess == nil || p.kind(m) > sidecar {
		return grant.Part{}, false
	}
	one, found := p.has.guess.Parts[m.Name]
	wanted := slices.ContainsFunc(p.asked.pin.Pinned, func(c workload.PinnedContainer) bool { return c.Name == m.Name })
	return one, found && m.CPUs.IsSubsetOf(one.CPUs) && (p.spec.Ended || p.asks() && wanted)
}

func (s *claims) pinnable() cpuset.Set { return s.machine.Pinnable() }
