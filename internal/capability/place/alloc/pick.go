package alloc

// terms returns the core terms of the best n CPUs out of the cores that the tally counts: good, ones and parts.
// Greater counts never make the terms worse, so counts that are too great give a bound. If the search is not fast, the
// result is only a bound.
func (e *eligible) terms(n int, t *tally) coreTerms {
	switch missing := max(0, n-t.good); {
	case e.p.whole:
		return coreTerms{}
	case e.p.bind == SpreadByPCPUs:
		return coreTerms{first: missing}
	case !e.fast:
		partly := max(1, e.p.kind.wide-1)
		return coreTerms{first: (missing + partly - 1) / partly}
	case e.p.kind.wide > 2:
		return e.wideTerms(n, t)
	case missing > 0:
		return coreTerms{first: missing}
	case n%2 == 0 || t.ones > 0:
		return coreTerms{}
	case t.parts > 0:
		return coreTerms{first: 1}
	default:
		return coreTerms{1, 1}
	}
}

// pick returns the lowest of the best answers within a pool, with the forced CPUs.
func (s *Scratch) pick(pool *mask, t *tally) mask {
	var cpus mask
	n, e := s.l3s.need, &s.eligible
	if s.p.bind == SpreadByPCPUs {
		cpus = e.first
		cpus.and(pool)
		if rest := n - t.cores; rest > 0 {
			more := e.cpus
			more.and(pool)
			more.andNot(&e.first)
			more.keep(rest)
			cpus.or(&more)
		} else {
			cpus.keep(n)
		}
	} else {
		cpus = s.pickFull(pool, t, n)
	}
	cpus.or(&s.l3s.forced.cpus)
	return cpus
}

// pickFull uses whole cores where possible.
func (s *Scratch) pickFull(pool *mask, t *tally, n int) mask {
	e := &s.eligible
	if s.p.kind.wide > 2 && !s.p.whole {
		return s.pickWide(pool, t, n)
	}
	if n > t.good {
		part, cpus := e.part, e.cpus
		part.and(pool)
		cpus.and(pool)
		cpus.andNot(&part)
		part.keep(n - t.good)
		cpus.or(&part)
		return cpus
	}
	lead := e.lead
	lead.and(pool)
	switch t.ones {
	case t.good:
		lead.keep(n)
		return lead
	case 0:
		return s.pickPairs(pool, &lead, n)
	}
	return s.pickMixed(&lead, t, n)
}

// pickPairs picks cores of one size: of two threads or, with p.whole, of any number.
func (s *Scratch) pickPairs(pool, lead *mask, n int) mask {
	e := &s.eligible
	size := len(s.eligible.m.cores[s.eligible.m.coreOf[lead.next(0)]].cpus)
	cores, odd := n/size, n%size > 0
	part := e.part
	part.and(pool)
	if first := part.next(0); odd && first != none {
		lead.keep(cores)
		cpus := s.eligible.m.withSiblings(lead)
		cpus.add(first)
		return cpus
	}
	if odd {
		cores++
	}
	lead.keep(cores)
	cpus := s.eligible.m.withSiblings(lead)
	if odd {
		cpus.remove(cpus.greatest())
	}
	return cpus
}

// pickMixed picks cores of one thread and of two, the lowest first. It uses a core if the later cores can still
// provide exactly the remaining CPUs. An odd number needs at least one core of one thread.
func (s *Scratch) pickMixed(lead *mask, t *tally, n int) mask {
	var cpus mask
	ones, pairs := t.ones, (t.good-t.ones)/2
	fits := func(n, ones, pairs int) bool {
		return n >= 0 && n <= ones+2*pairs && (n%2 == 0 || ones > 0)
	}
	for cpu := lead.next(0); cpu != none && n > 0; cpu = lead.next(cpu + 1) {
		c := int(s.eligible.m.coreOf[cpu])
		size := len(s.eligible.m.cores[c].cpus)
		if size == 1 {
			ones--
		} else {
			pairs--
		}
		if fits(n-size, ones, pairs) {
			s.eligible.m.addCore(&cpus, c)
			n -= size
		}
	}
	return cpus
}
