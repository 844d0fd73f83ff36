package alloc

// vector measures an answer, CPU by CPU, independently of how it was found.
func (s *Scratch) vector(cpus *mask) Vector {
	m, p := s.m, &s.p
	var v Vector
	s.nodeList = s.nodeList[:0]
	for i := range m.nodes {
		if in := m.nodes[i].cpus.in(cpus); in > 0 {
			v.FreeNUMA += s.freeNodes[i] - in
			for _, other := range s.nodeList {
				v.Distance += m.distance[i][other]
			}
			s.nodeList = append(s.nodeList, i)
		}
	}
	v.NUMANodes = len(s.nodeList)
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
	s.held = resize(s.held, len(m.cores))
	for cpu := cpus.next(0); cpu != none; cpu = cpus.next(cpu + 1) {
		c := m.coreOf[cpu]
		s.held[c]++
		if !p.prefers(&m.cells[m.cores[c].cell]) {
			v.OffPreferred++
		}
	}
	for c, held := range s.held {
		if held > 0 {
			s.vectorCore(&v, c, int(held))
		}
	}
	return v
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
