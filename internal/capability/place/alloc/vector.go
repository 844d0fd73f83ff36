package alloc

// vector measures an answer, CPU by CPU, independently of how it was found.
func (e *eligible) vector(cpus *mask) Vector {
	m, v := e.m, Vector{}
	e.nodeList = e.nodeList[:0]
	for i := range m.nodes {
		if in := m.nodeCPUs[i].in(cpus); in > 0 {
			v.FreeNUMA += e.freeNodes[i] - in
			v.Distance += m.distanceTo(i, e.nodeList)
			e.nodeList = append(e.nodeList, i)
		}
	}
	near := m.near(e.nodeList, v.Distance)
	v.NUMANodes, v.Sockets, v.Dies = len(e.nodeList), near.sockets, near.dies
	v.Unheld = e.p.unheld(e.nodeList)
	v.L3s, v.FreeL3 = touched(m.l3CPUs, e.freeL3s, cpus)
	_, v.FreeSocket = touched(m.socketCPUs[:len(m.sockets)-1], e.freeSockets, cpus)
	e.vectorCores(&v, cpus)
	return v
}

// near returns in how many sockets and dies nodes are wholly inside; distance is the sum of the distances of the pairs.
func (m *Machine) near(nodes []int, distance int) nearness {
	var sockets, dies nodeSet
	for _, i := range nodes {
		sockets |= m.nodes[i].inSocket
		dies |= m.nodes[i].inDie
	}
	return nearness{sockets.size(), dies.size(), distance}
}

// distanceTo returns the sum of the distances of a node to other nodes.
func (m *Machine) distanceTo(node int, others []int) int {
	sum := 0
	for _, other := range others {
		sum += m.distance[node][other]
	}
	return sum
}

// vectorCores measures what depends on single CPUs and cores.
func (e *eligible) vectorCores(v *Vector, cpus *mask) {
	m := e.m
	e.held = resize(e.held, len(m.cores))
	for cpu := cpus.next(0); cpu != none; cpu = cpus.next(cpu + 1) {
		c := m.coreOf[cpu]
		e.held[c]++
		if !e.p.prefers(&m.cells[m.cores[c].cell]) {
			v.OffPreferred++
		}
	}
	for c, held := range e.held {
		if held > 0 {
			e.vectorCore(v, c, int(held))
		}
	}
}

func (e *eligible) vectorCore(v *Vector, c, held int) {
	v.Cores++
	threads := e.m.cores[c].cpus
	if held == len(threads) {
		return
	}
	v.Split++
	for _, cpu := range threads {
		if !e.p.free.has(int(cpu)) {
			return
		}
	}
	v.Broken++
}
