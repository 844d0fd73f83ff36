package alloc

// fewest returns the least number of nodes that can hold the answer, or why there is none.
func (e *eligible) fewest() (int, Refusal) {
	p := e.p
	e.survey()
	total, open, biggest := e.home, e.home, 0
	for i, n := range e.nodes {
		total += n
		if p.open.has(i) {
			open += n
			biggest = max(biggest, n)
		}
	}
	switch {
	case total < p.n:
		return 0, p.short(Anywhere, total)
	case open < p.n && p.alone:
		return 0, Refusal{Code: TooFewExclusiveNodes, Want: p.n, Have: open}
	case open < p.n:
		return 0, Refusal{Code: NodesHeldAlone, Want: p.n, Have: open}
	case e.home >= p.n:
		return 0, Refusal{}
	}
	count, have := e.fewestNodes()
	switch {
	case count == none:
		return 0, Refusal{Code: KeptApart, Want: p.n, Have: have}
	case count <= p.most:
		return count, Refusal{}
	case p.most == 1:
		have = biggest + e.home
	default:
		have = e.most(p.across, p.most)
	}
	return 0, p.short(p.scope, have)
}

// fewestNodes returns the least number of nodes by what they can contribute. If NUMA exclusivity prevents an answer,
// it returns none and the number of available CPUs. An answer crosses nodes only because no single node could hold it,
// never to avoid an exclusive pod.
func (e *eligible) fewestNodes() (count, have int) {
	p := e.p
	e.sorted = e.sorted[:0]
	for i, n := range e.nodes {
		if p.single.has(i) && n+e.home >= p.n {
			return 1, 0
		}
		if p.across.has(i) && n > 0 {
			e.sorted = insert(e.sorted, n, len(e.nodes))
		}
	}
	have = e.home
	for i, n := range e.sorted {
		have += n
		if have >= p.n {
			if i == 0 {
				return none, e.most(p.single, 1)
			}
			return i + 1, 0
		}
	}
	return none, max(have, e.most(p.single, 1))
}

// most returns the greatest number of CPUs in count nodes.
func (e *eligible) most(nodes nodeSet, count int) int {
	e.sorted = e.sorted[:0]
	for i, n := range e.nodes {
		if nodes.has(i) {
			e.sorted = insert(e.sorted, n, max(0, count))
		}
	}
	return e.home + total(e.sorted)
}

// total returns the sum of a list.
func total(list []int) int {
	sum := 0
	for _, n := range list {
		sum += n
	}
	return sum
}

// insert inserts n into a list in descending order, of which only the first most values remain.
func insert(list []int, n, most int) []int {
	if len(list) < most {
		list = append(list, n)
	} else if most == 0 || list[most-1] >= n {
		return list
	}
	i := len(list) - 1
	for ; i > 0 && list[i-1] < n; i-- {
		list[i] = list[i-1]
	}
	list[i] = n
	return list
}

// short returns the Refusal for lack of CPUs, with figures in the unit of its cause.
func (p *problem) short(scope Scope, have int) Refusal {
	no := Refusal{Code: TooFewCPUs, Scope: scope, Want: p.n, Have: have}
	switch {
	case p.whole:
		threads := max(1, p.kind.threads)
		no.Code, no.Want, no.Have = TooFewWholeCores, p.n/threads, have/threads
	case p.clean:
		no.Code = TooFewExclusive
	case p.one:
		no.Code = TooFewCores
	}
	return no
}
