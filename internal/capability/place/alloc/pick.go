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

// picker picks the lowest of the best answers within a pool of CPUs, if counts of cores determine the core terms. Where
// they do not, table does.
type picker struct {
	e     *eligible
	table table
}

// pick returns the lowest of the best answers of n CPUs; t counts the cores of the pool.
func (k *picker) pick(pool *mask, t *tally, n int) mask {
	e, full := k.e, k.e.p.bind == FullPCPUs
	if full && e.p.kind.wide > 2 && !e.p.whole {
		return k.wide(pool, t, n)
	}
	if full && n <= t.good && t.ones < t.good {
		lead := e.lead
		lead.and(pool)
		if t.ones > 0 {
			return k.mixed(&lead, t, n)
		}
		return k.pairs(pool, &lead, n)
	}
	good := e.first
	if full {
		good = e.cpus
		good.andNot(&e.part)
	}
	good.and(pool)
	more := e.cpus
	more.and(pool)
	more.andNot(&good)
	good.keep(n)
	more.keep(n - t.good)
	good.or(&more)
	return good
}

// pairs picks cores of one size: of two threads or, with p.whole, of any number.
func (k *picker) pairs(pool, lead *mask, n int) mask {
	m, part := k.e.m, k.e.part
	part.and(pool)
	size := len(m.threads(lead.next(0)))
	first, breaks := part.next(0), 0
	if n%size > 0 && first == none {
		breaks = 1
	}
	lead.keep(n/size + breaks)
	cpus := m.withSiblings(lead)
	switch {
	case breaks > 0:
		cpus.remove(cpus.greatest())
	case n%size > 0:
		cpus.add(first)
	}
	return cpus
}

// mixed picks cores of one thread and of two, the lowest first. It uses a core if the later cores can still provide
// exactly the remaining CPUs. An odd number needs at least one core of one thread.
func (k *picker) mixed(lead *mask, t *tally, n int) mask {
	var cpus mask
	ones, pairs := t.ones, (t.good-t.ones)/2
	for cpu := lead.next(0); cpu != none && n > 0; cpu = lead.next(cpu + 1) {
		threads := k.e.m.threads(cpu)
		if len(threads) == 1 {
			ones--
		} else {
			pairs--
		}
		if rest := n - len(threads); rest >= 0 && rest <= ones+2*pairs && (rest%2 == 0 || ones > 0) {
			cpus.addAll(threads)
			n = rest
		}
	}
	return cpus
}
