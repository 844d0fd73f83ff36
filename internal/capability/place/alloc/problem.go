package alloc

// problem is one exact search for the best n CPUs among the CPUs that may be given out.
type problem struct {
	n    int
	kind *kind
	// free holds every free CPU, whether eligible or not.
	free mask
	bind Bind
	// strategy decides how the three terms of free CPUs are compared.
	strategy Strategy
	// even: an answer that needs several nodes is divided evenly among them.
	even bool
	// clean: only wholly free cores are eligible. whole: each core is used wholly or not at all. one: at most one CPU
	// of each core is used.
	clean, whole, one bool
	// prefer holds the preferred nodes; picky is true if there are any.
	prefer nodeSet
	picky  bool
	// amounts are what the nodes should have together.
	amounts []Amount
	// open holds the nodes that may be used at all. single holds the nodes that an answer in one node may use; across
	// holds the nodes that an answer in several nodes may use.
	open, single, across nodeSet
	// home: CPUs that are in no node may be used too.
	home bool
	// alone: only nodes without other pods are open.
	alone bool
	// only is the L3 domain that must hold the whole answer, or none for any domain.
	only int
	// most is the greatest number of nodes allowed; scope is its reason.
	most  int
	scope Scope
}

// byCore reports whether a free CPU's eligibility depends on its core.
func (p *problem) byCore() bool { return p.clean || p.one }

// prefers reports whether the request prefers the CPUs of the cell.
func (p *problem) prefers(at *cell) bool {
	return !p.picky || at.node != none && p.prefer.has(at.node)
}

// sign is 1 if domains with more free CPUs are better, and -1 if domains with fewer are.
func (p *problem) sign() int {
	if p.strategy == LeastAllocated {
		return 1
	}
	return -1
}

// missing returns how many amounts the nodes together do not have.
func (p *problem) missing(nodes []int) (m missing) {
	for i := range p.amounts {
		if a := &p.amounts[i]; !a.heldBy(nodes) {
			m.add(a)
		}
	}
	return m
}

// pose prepares the problem that an attempt has to solve.
func (p *problem) pose(m *Machine, t *Taken, r *Request, n int, try attempt) {
	k := m.kindFor(r)
	*p = problem{
		n: n, kind: k, free: k.cpus, bind: r.Bind, strategy: r.Strategy, only: none, most: len(m.nodes),
		clean: try.exclusive == PCPULevel,
		alone: try.exclusive == NUMANodeLevel,
		home:  r.NUMA != SingleNUMANode && try.exclusive != NUMANodeLevel,
		picky: !r.PreferNodes.IsEmpty(),
		even:  r.Strategy == DistributeEvenly && r.Domain == AnyDomain,
	}
	if r.Strategy == DistributeEvenly {
		p.strategy = MostAllocated // solve changes it if several nodes are needed
	}
	p.free.andNot(&t.cpus)
	p.free.andNot(&t.withheld)
	if r.BindStrength == Required {
		p.whole, p.one = r.Bind == FullPCPUs, r.Bind == SpreadByPCPUs
		p.clean = p.clean || p.whole
	}
	if r.NUMA == SingleNUMANode {
		p.most, p.scope = 1, InOneNode
	}
	p.amounts = r.Amounts[:min(len(r.Amounts), heldMost)]
	for i := range m.nodes {
		if p.picky && r.PreferNodes.Contains(int(m.nodes[i].id)) {
			p.prefer.add(i)
		}
	}
	p.openNodes(m, t, try)
}

// openNodes determines what the nodes may be used for.
func (p *problem) openNodes(m *Machine, t *Taken, try attempt) {
	p.open = allNodes &^ t.closed
	if p.alone {
		used := m.nodesOf(&t.cpus)
		p.open &^= used
	}
	p.single, p.across = p.open&^t.keepAcross, p.open&^t.keepInside
	if try.apart {
		p.single &^= t.across
		p.across &^= t.inside
	}
}

// kindFor returns what is given out to the request.
func (m *Machine) kindFor(r *Request) *kind {
	if r.EfficiencyCores {
		return &m.kinds[1]
	}
	return &m.kinds[0]
}

// inOneNode restricts the problem to one node.
func (p *problem) inOneNode(scope Scope) {
	p.only, p.home, p.most, p.scope = none, false, 1, scope
}

// part turns p into the problem of one container of a pod. The union already meets the policies about other pods and
// the number of nodes.
func (p *problem) part(nodes int) {
	p.open, p.single, p.across = allNodes, allNodes, allNodes
	p.clean, p.alone, p.home = p.whole, false, true
	p.only, p.most, p.scope, p.amounts = none, nodes, Anywhere, nil
}
