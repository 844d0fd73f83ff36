package alloc

// vector measures an answer, CPU by CPU, independently of how it was found.
func (s *Scratch) vector(cpus *mask) Vector {
	m, v := s.m, Vector{}
	s.nodeList = s.nodeList[:0]
	for i := range m.nodes {
		if in := m.nodes[i].cpus.in(cpus); in > 0 {
			v.FreeNUMA += s.freeNodes[i] - in
			v.Distance += s.distanceTo(i, s.nodeList)
			s.nodeList = append(s.nodeList, i)
		}
	}
	v.NUMANodes, v.Sockets, v.Dies = len(s.nodeList), m.socketsOf(s.nodeList), m.diesOf(s.nodeList)
	v.Unheld = s.p.unheld(s.nodeList)
	for i := range m.l3s {
		if in := m.l3s[i].cpus.in(cpus); in > 0 {
			v.L3s++
			v.FreeL3 += s.freeL3s[i] - in
		}
	}
	for i := range m.sockets[:len(m.sockets)-1] {
		if in := m.sockets[i].cpus.in(cpus); in > 0 {
			v.FreeSocket += s.freeSockets[i] - in
		}
	}
	s.vectorCores(&v, cpus)
	return v
}

// socketsOf returns the number of sockets that nodes are wholly inside.
func (m *Machine) socketsOf(nodes []int) int {
	var seen mask
	count := 0
	for _, i := range nodes {
		if socket := m.nodes[i].socket; m.isSocket(socket) && !seen.has(socket) {
			seen.add(socket)
			count++
		}
	}
	return count
}

// diesOf returns the number of dies that nodes are wholly inside.
func (m *Machine) diesOf(nodes []int) int {
	var seen mask
	count := 0
	for _, i := range nodes {
		if die := m.nodes[i].die; die != none && !seen.has(die) {
			seen.add(die)
			count++
		}
	}
	return count
}

// isSocket reports whether the index is a single socket: not several sockets, and not the entry for CPUs in none.
func (m *Machine) isSocket(socket int) bool { return socket >= 0 && socket < len(m.sockets)-1 }

// distanceTo returns the sum of the distances of a node to other nodes.
func (s *Scratch) distanceTo(node int, others []int) int {
	sum := 0
	for _, other := range others {
		sum += s.m.distance[node][other]
	}
	return sum
}

// vectorCores measures what depends on single CPUs and cores.
func (s *Scratch) vectorCores(v *Vector, cpus *mask) {
	m := s.m
	s.held = resize(s.held, len(m.cores))
	for cpu := cpus.next(0); cpu != none; cpu = cpus.next(cpu + 1) {
		c := m.coreOf[cpu]
		s.held[c]++
		if !s.p.prefers(&m.cells[m.cores[c].cell]) {
			v.OffPreferred++
		}
	}
	for c, held := range s.held {
		if held > 0 {
			s.vectorCore(v, c, int(held))
		}
	}
}

func (s *Scratch) vectorCore(v *Vector, c, held int) {
	v.Cores++
	threads := s.m.cores[c].cpus
	if held == len(threads) {
		return
	}
	v.Split++
	for _, cpu := range threads {
		if !s.p.free.has(int(cpu)) {
			return
		}
	}
	v.Broken++
}
