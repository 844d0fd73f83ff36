package alloc

// vector measures an answer, CPU by CPU, independently of how it was found.
func (e *eligible) vector(cpus *mask) Vector {
	m, v := e.m, Vector{}
	var room [mostNodes]int
	nodes := room[:0]
	for i := range m.nodes {
		if in := m.nodeCPUs[i].in(cpus); in > 0 {
			v.FreeNUMA += e.freeNodes[i] - in
			v.Distance += m.distanceTo(i, nodes)
			nodes = append(nodes, i)
		}
	}
	near := m.near(nodes, v.Distance)
	v.NUMANodes, v.Sockets, v.Dies = len(nodes), near.sockets, near.dies
	no := e.p.missing(nodes)
	v.FarDevices, v.Unheld = no.devices, no.memory
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
	var seen mask // cores
	for cpu := cpus.next(0); cpu != none; cpu = cpus.next(cpu + 1) {
		c := int(m.coreOf[cpu])
		if !e.p.prefers(&m.cells[m.cores[c].cell]) {
			v.OffPreferred++
		}
		if seen.has(c) {
			continue
		}
		seen.add(c)
		v.Cores++
		if threads := m.cores[c].cpus; cpus.count(threads) < len(threads) {
			v.Split++
			if e.p.free.count(threads) == len(threads) {
				v.Broken++
			}
		}
	}
}
