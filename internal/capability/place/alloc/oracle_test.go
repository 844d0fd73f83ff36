package alloc_test

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/berth-project/berth/internal/capability/place/alloc"
	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// oracle answers a request with a search through every subset of the free CPUs. It follows the definition and shares no
// code with the package. CPUs are bits of a word.
type oracle struct {
	topo              *topology.Topology
	cores, nodes, l3s []word
	sockets, dies     []word
	threads           int // of the largest core that may be given out
	pinned, free      word
	eligible          word // without the conditions on the whole set
	inside, across    word // CPUs of nodes for answers in one node, and in several
	request           *alloc.Request
}

type word uint32

func wordOf(s cpuset.Set) (w word) {
	for cpu := range s.All() {
		w |= 1 << cpu
	}
	return w
}

func (w word) size() int { return bits.OnesCount32(uint32(w)) }

func (w word) set() (s cpuset.Set) {
	for cpu := range 32 {
		if w>>cpu&1 != 0 {
			s = s.Add(cpu)
		}
	}
	return s
}

// before compares sets of equal size as ascending lists.
func (w word) before(o word) bool {
	for cpu := range 32 {
		if a, b := w>>cpu&1, o>>cpu&1; a != b {
			return a == 1
		}
	}
	return false
}

func newOracle(t *topology.Topology, r *alloc.Request) *oracle {
	o := &oracle{topo: t, request: r}
	of := func(match func(topology.Core) bool) (w word) {
		for _, c := range t.Cores {
			if match(c) {
				w |= wordOf(c.CPUs)
			}
		}
		return w
	}
	for _, n := range t.Nodes {
		o.nodes = append(o.nodes, of(func(c topology.Core) bool { return c.Node == n.ID }))
	}
	for _, d := range t.L3 {
		o.l3s = append(o.l3s, of(func(c topology.Core) bool { return c.L3 == d.ID }))
	}
	for _, s := range t.Sockets {
		o.sockets = append(o.sockets, of(func(c topology.Core) bool { return c.Socket == s.ID }))
	}
	for _, d := range t.Dies {
		o.dies = append(o.dies, wordOf(d.CPUs))
	}
	for _, c := range t.Cores {
		o.cores = append(o.cores, wordOf(c.CPUs))
		if r.EfficiencyCores || c.Kind != topology.KindEfficiency {
			o.free |= wordOf(c.CPUs)
		}
	}
	o.free &^= wordOf(t.Reserved) | wordOf(t.Isolated)
	for _, c := range o.cores {
		if c&^o.free == 0 {
			o.threads = max(o.threads, c.size())
		}
	}
	return o
}

// hold is one pod of a state.
type hold = alloc.Holding

// occupy removes what pods hold, for a request with or without the two exclusivities.
func (o *oracle) occupy(holds []hold, exclusive alloc.Exclusive, apart bool) {
	everywhere := ^word(0)
	o.inside, o.across = everywhere, everywhere
	closed := word(0)
	for _, h := range holds {
		cpus := wordOf(h.CPUs)
		o.pinned |= cpus
		if h.Exclusive == alloc.PCPULevel {
			for _, c := range o.cores {
				if c&cpus != 0 {
					o.pinned |= c
				}
			}
		}
		touched, count := o.touch(o.nodes, cpus)
		if h.Exclusive == alloc.NUMANodeLevel {
			closed |= touched
		}
		if h.SingleNUMA || apart {
			if count > 1 {
				o.inside &^= touched
			} else {
				o.across &^= touched
			}
		}
	}
	o.free &^= o.pinned
	o.eligible = o.free &^ closed
	if exclusive == alloc.NUMANodeLevel || o.request.NUMA == alloc.SingleNUMANode {
		o.eligible &= union(o.nodes)
	}
	if exclusive == alloc.NUMANodeLevel {
		others, _ := o.touch(o.nodes, o.pinned)
		o.eligible &^= others
	}
	whole := o.request.Bind == alloc.FullPCPUs && o.request.BindStrength == alloc.Required
	for _, c := range o.cores {
		if (exclusive == alloc.PCPULevel || whole) && c&^o.free != 0 || whole && !o.fills(c.size()) {
			o.eligible &^= c
		}
	}
}

// fills reports whether cores with the given number of threads serve requests for whole cores.
func (o *oracle) fills(threads int) bool {
	switch threads {
	case o.threads:
		return true
	case 1, 2, 4, 8:
		return o.threads%threads == 0
	}
	return false
}

func union(domains []word) (w word) {
	for _, d := range domains {
		w |= d
	}
	return w
}

// touch returns the CPUs of all domains that intersect the set, and the number of domains.
func (o *oracle) touch(domains []word, cpus word) (w word, count int) {
	for _, d := range domains {
		if d&cpus != 0 {
			w |= d
			count++
		}
	}
	return w, count
}

// satisfies reports whether a set meets the bind policy.
func (o *oracle) satisfies(cpus word) bool {
	if o.request.BindStrength != alloc.Required {
		return true
	}
	for _, c := range o.cores {
		in := c & cpus
		switch o.request.Bind {
		case alloc.FullPCPUs:
			if in != 0 && in != c {
				return false
			}
		case alloc.SpreadByPCPUs:
			if in.size() > 1 {
				return false
			}
		}
	}
	return true
}

// vector computes the vector term by term from its definition.
func (o *oracle) vector(cpus, free word) alloc.Vector {
	var v alloc.Vector
	for _, a := range o.request.Amounts {
		for i, node := range o.nodes {
			if node&cpus != 0 {
				a.Want -= a.Free[i]
			}
		}
		if a.Want > 0 && a.Device {
			v.FarDevices++
		} else if a.Want > 0 {
			v.Unheld++
		}
	}
	for i, a := range o.nodes {
		if a&cpus == 0 {
			continue
		}
		v.NUMANodes++
		v.FreeNUMA += (a & free &^ cpus).size()
		if !o.request.PreferNodes.IsEmpty() && o.request.PreferNodes.Contains(int(o.topo.Nodes[i].ID)) {
			v.OffPreferred -= (a & cpus).size()
		}
		for j := range i {
			if o.nodes[j]&cpus != 0 {
				v.Distance += max(o.topo.Nodes[i].Distances[j], o.topo.Nodes[j].Distances[i])
			}
		}
	}
	if !o.request.PreferNodes.IsEmpty() {
		v.OffPreferred += cpus.size()
	}
	for _, d := range o.l3s {
		if d&cpus != 0 {
			v.L3s++
			v.FreeL3 += (d & free &^ cpus).size()
		}
	}
	for _, d := range o.sockets {
		if slices.ContainsFunc(o.nodes, func(node word) bool { return node&cpus != 0 && node&^d == 0 }) {
			v.Sockets++
		}
		if d&cpus != 0 {
			v.FreeSocket += (d & free &^ cpus).size()
		}
	}
	for _, d := range o.dies {
		if slices.ContainsFunc(o.nodes, func(node word) bool { return node&cpus != 0 && node&^d == 0 }) {
			v.Dies++
		}
	}
	for _, c := range o.cores {
		if c&cpus != 0 {
			v.Cores++
			if c&^cpus != 0 {
				v.Split++
				if c&^free == 0 {
					v.Broken++
				}
			}
		}
	}
	return v
}

// better compares two vectors.
func (o *oracle) better(a, b alloc.Vector) int {
	cores := cmp.Or(a.Split-b.Split, a.Broken-b.Broken)
	if o.request.Bind == alloc.SpreadByPCPUs {
		cores = b.Cores - a.Cores
	}
	sign := 1
	if s := o.request.Strategy; s == alloc.LeastAllocated || o.even() && a.NUMANodes > 1 {
		sign = -1
	}
	return cmp.Or(a.NUMANodes-b.NUMANodes, a.FarDevices-b.FarDevices, a.Unheld-b.Unheld, a.OffPreferred-b.OffPreferred, a.Sockets-b.Sockets, a.Dies-b.Dies, a.Distance-b.Distance, a.L3s-b.L3s, cores,
		sign*(a.FreeL3-b.FreeL3), sign*(a.FreeNUMA-b.FreeNUMA), sign*(a.FreeSocket-b.FreeSocket))
}

// even reports whether a request that needs several nodes is divided evenly among them.
func (o *oracle) even() bool {
	return o.request.Strategy == alloc.DistributeEvenly && o.request.Domain == alloc.AnyDomain
}

// evenly divides the n CPUs of an answer evenly among its nodes.
func (o *oracle) evenly(r result, pool, free word, n int) result {
	if !o.even() || !r.ok || r.vector.NUMANodes < 2 || r.cpus&^union(o.nodes) != 0 {
		return r
	}
	if shared, _ := o.shared(r.cpus, pool, free, n); shared.ok {
		return shared
	}
	return r
}

// spanning divides n CPUs among the nodes of Request.Span if each can have some.
func (o *oracle) spanning(n int) result {
	var all word
	for i, node := range o.topo.Nodes {
		if o.request.Span.Contains(int(node.ID)) {
			all |= o.nodes[i]
		}
	}
	_, count := o.touch(o.nodes, all)
	if count < 2 || count != o.request.Span.Size() || o.request.NUMA == alloc.SingleNUMANode || all&^o.across != 0 {
		return result{}
	}
	shared, each := o.shared(all, o.eligible, o.free, n)
	if each < count {
		return result{}
	}
	return shared
}

// shared divides n CPUs as evenly as possible among the nodes that touched intersects, and returns how many of these
// nodes have some.
func (o *oracle) shared(touched, pool, free word, n int) (r result, each int) {
	room := map[int]int{}
	for i, node := range o.nodes {
		if node&touched == 0 {
			continue
		}
		room[i] = (node & pool).size()
		if o.request.Bind == alloc.SpreadByPCPUs && o.request.BindStrength == alloc.Required {
			_, room[i] = o.touch(o.cores, node&pool)
		}
	}
	share, unit := map[int]int{}, 1
	if o.request.Bind == alloc.FullPCPUs {
		unit = max(1, o.threads)
	}
	for n > 0 {
		step, least := min(unit, n), -1
		for i := range o.nodes {
			if room[i]-share[i] >= step && room[i] > 0 && (least < 0 || share[i] < share[least]) {
				least = i
			}
		}
		if least < 0 && unit == 1 {
			return result{}, 0
		}
		if least < 0 {
			unit = 1
			continue
		}
		share[least] += step
		n -= step
	}
	var all word
	for i, node := range o.nodes {
		if share[i] > 0 {
			part := o.best(pool&node, free&node, share[i], func(word, *alloc.Vector) bool { return true })
			if !part.ok {
				return result{}, 0
			}
			all |= part.cpus
			each++
		}
	}
	return result{ok: true, cpus: all, vector: o.vector(all, free)}, each
}

type result struct {
	ok     bool
	cpus   word
	vector alloc.Vector
	// pool has the eligible CPUs of the answer's nodes, and free has their CPUs that count as free. Both are empty if
	// the answer has CPUs in no node.
	pool, free word
}

// best searches all subsets of pool with n CPUs that ok accepts.
func (o *oracle) best(pool, free word, n int, ok func(cpus word, v *alloc.Vector) bool) (r result) {
	for sub := pool; sub != 0; sub = (sub - 1) & pool {
		if sub.size() != n || !o.satisfies(sub) {
			continue
		}
		v := o.vector(sub, free)
		if !ok(sub, &v) {
			continue
		}
		order := -1
		if r.ok {
			order = o.better(v, r.vector)
		}
		if order < 0 || order == 0 && sub.before(r.cpus) {
			r = result{ok: true, cpus: sub, vector: v}
		}
	}
	return r
}

// within returns the best answer in a pool with at most the given number of nodes. Any answer in one node is preferred.
// Several nodes are used only if one node would not suffice even without the pods that exclude it.
func (o *oracle) within(pool word, n, nodes int) result {
	single := o.best(pool, o.free, n, func(cpus word, v *alloc.Vector) bool {
		return v.NUMANodes <= min(1, nodes) && cpus&union(o.nodes)&^o.inside == 0
	})
	if single.ok {
		return single
	}
	several := o.best(pool, o.free, n, func(cpus word, _ *alloc.Vector) bool { return cpus&union(o.nodes)&^o.across == 0 })
	if several.ok && (several.vector.NUMANodes < 2 || several.vector.NUMANodes > nodes) {
		return result{}
	}
	return several
}

// place answers a request with the preferences of one attempt.
func place(t *topology.Topology, holds []hold, r *alloc.Request, exclusive alloc.Exclusive, apart bool) result {
	n := 0
	for _, w := range r.Wants {
		n += w.CPUs
	}
	o := newOracle(t, r)
	if r.Bind == alloc.FullPCPUs && r.BindStrength == alloc.Required {
		for _, w := range r.Wants {
			if o.threads == 0 || w.CPUs%o.threads != 0 {
				return result{}
			}
		}
	}
	nodes := len(t.Nodes)
	switch r.NUMA {
	case alloc.SingleNUMANode:
		nodes = 1
	case alloc.Restricted:
		empty := newOracle(t, r)
		empty.occupy(nil, exclusive, apart)
		least := empty.within(empty.eligible, n, nodes)
		if !least.ok {
			return result{}
		}
		nodes = least.vector.NUMANodes
	}
	o.occupy(holds, exclusive, apart)
	if r.Domain == alloc.AnyDomain {
		found := o.spanning(n)
		if !found.ok {
			found = o.within(o.eligible, n, nodes)
		}
		found = o.evenly(found, o.eligible, o.free, n)
		if in, _ := o.touch(o.nodes, found.cpus); found.cpus&^in == 0 {
			found.pool, found.free = in&o.eligible, o.free
		}
		return found
	}
	var found result
	for _, d := range o.l3s {
		in := o.within(o.eligible&d, n, nodes)
		if in.ok && (!found.ok || o.better(in.vector, found.vector) < 0 ||
			o.better(in.vector, found.vector) == 0 && in.cpus.before(found.cpus)) {
			found = in
		}
	}
	if !found.ok {
		found = o.within(o.eligible&union(o.nodes), n, 1)
	}
	return found
}

// expected is the complete answer of the oracle.
type expected struct {
	result
	each    []word
	dropped alloc.Dropped
}

// expect answers a request. It first treats all preferences as conditions.
func expect(t *topology.Topology, holds []hold, r *alloc.Request) expected {
	for dropped := range alloc.Dropped(4) {
		exclusive, apart := r.Exclusive, r.NUMAExclusive != alloc.NUMAShared
		if dropped&alloc.DroppedExclusive != 0 {
			if exclusive == alloc.NotExclusive || r.ExclusiveStrength == alloc.Required {
				continue
			}
			exclusive = alloc.NotExclusive
		}
		if dropped&alloc.DroppedNUMAExclusive != 0 {
			if r.NUMAExclusive != alloc.NUMAExclusivePreferred {
				continue
			}
			apart = false
		}
		if found := place(t, holds, r, exclusive, apart); found.ok {
			found, each := divide(t, r, found, exclusive)
			return expected{found, each, dropped}
		}
	}
	return expected{}
}

// divide gives each container its part of the union, the largest container first. If that splits containers across L3
// domains, divide tries the best CPUs of all free CPUs of these nodes, and uses them if they split fewer. If containers
// are still split, divide tries to give each CPUs of one domain. No division leaves a node of Span.
func divide(t *topology.Topology, r *alloc.Request, found result, exclusive alloc.Exclusive) (result, []word) {
	parts := *r
	parts.Amounts = nil
	o, parting := newOracle(t, r), newOracle(t, &parts)
	each, _ := parting.take(found.cpus)
	// less torn, and as good for the pod.
	better := func(other []word) bool {
		v := o.vector(union(other), found.free)
		nodes, l3s := o.torn(each)
		otherNodes, otherL3s := o.torn(other)
		for i, node := range t.Nodes {
			if r.Span.Contains(int(node.ID)) && o.nodes[i]&found.cpus != 0 && o.nodes[i]&union(other) == 0 {
				return false
			}
		}
		return cmp.Or(otherNodes-nodes, otherL3s-l3s) < 0 && (exclusive != alloc.PCPULevel || v.Split <= found.vector.Split) &&
			cmp.Or(v.NUMANodes-found.vector.NUMANodes, v.FarDevices-found.vector.FarDevices, v.Unheld-found.vector.Unheld, v.OffPreferred-found.vector.OffPreferred, v.Sockets-found.vector.Sockets, v.Dies-found.vector.Dies, v.Distance-found.vector.Distance) <= 0
	}
	for _, again := range []func() ([]word, bool){
		func() ([]word, bool) {
			if r.Strategy == alloc.DistributeEvenly {
				return nil, false
			}
			return parting.take(found.pool)
		},
		func() ([]word, bool) { return parting.whole(found.pool, found.cpus) },
	} {
		if _, l3s := o.torn(each); len(each) == 1 || l3s <= len(each) || found.pool == 0 {
			break
		}
		if other, ok := again(); ok && better(other) {
			found.cpus, each = union(other), other
			found.vector = o.vector(found.cpus, found.free)
		}
	}
	return found, each
}

// take gives each container the best remaining CPUs, the largest container first.
func (o *oracle) take(rest word) ([]word, bool) {
	r, order := o.request, o.order()
	each := make([]word, len(order))
	for _, i := range order {
		n := r.Wants[i].CPUs
		found := o.best(rest, rest, n, func(word, *alloc.Vector) bool { return true })
		if found = o.evenly(found, rest, rest, n); !found.ok {
			return nil, false
		}
		each[i] = found.cpus
		rest &^= o.gone(each[i])
	}
	return each, true
}

// order returns the containers, the largest first.
func (o *oracle) order() []int {
	wants := o.request.Wants
	order := make([]int, len(wants))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(wants[b].CPUs-wants[a].CPUs, cmp.Compare(wants[a].Name, wants[b].Name))
	})
	return order
}

// gone returns the CPUs that no other container can have.
func (o *oracle) gone(cpus word) word {
	if o.request.Bind == alloc.SpreadByPCPUs && o.request.BindStrength == alloc.Required {
		for _, c := range o.cores {
			if c&cpus != 0 {
				cpus |= c
			}
		}
	}
	return cpus
}

// whole gives each container the best CPUs of one L3 domain: the largest container first, the first of the fullest domains
// that leaves room for the others. DistributeEvenly keeps the number of CPUs of each node.
func (o *oracle) whole(pool, cpus word) ([]word, bool) {
	room := func(d word) int {
		if o.request.Bind == alloc.SpreadByPCPUs && o.request.BindStrength == alloc.Required {
			_, n := o.touch(o.cores, d&pool)
			return n
		}
		return (d & pool).size()
	}
	order := o.order()
	domains := slices.Clone(o.l3s)
	slices.SortStableFunc(domains, func(a, b word) int { return room(a) - room(b) })
	at := make([]word, len(order))
	var find func(rest []int) bool
	find = func(rest []int) bool {
		if len(rest) == 0 {
			return true
		}
		for _, d := range domains {
			at[rest[0]] = d
			if o.fits(at, room, cpus) && find(rest[1:]) {
				return true
			}
		}
		at[rest[0]] = 0
		return false
	}
	if !find(order) {
		return nil, false
	}
	each := make([]word, len(order))
	for _, i := range order {
		n := o.request.Wants[i].CPUs
		found := o.best(pool&at[i], pool&at[i], n, func(word, *alloc.Vector) bool { return true })
		if found = o.evenly(found, pool&at[i], pool&at[i], n); !found.ok {
			return nil, false
		}
		each[i] = found.cpus
		pool &^= o.gone(each[i])
	}
	return each, true
}

// fits reports whether the domains have room for the containers that are in them.
func (o *oracle) fits(at []word, room func(word) int, cpus word) bool {
	inDomain, inNode := map[word]int{}, map[word]int{}
	for i, d := range at {
		inDomain[d] += o.request.Wants[i].CPUs
		in, count := o.touch(o.nodes, d)
		if inNode[in] += o.request.Wants[i].CPUs; o.request.Strategy == alloc.DistributeEvenly && d != 0 && (count != 1 || d&^in != 0 || inNode[in] > (in&cpus).size()) {
			return false
		}
	}
	for d, n := range inDomain {
		if d != 0 && n > room(d) {
			return false
		}
	}
	return true
}

// torn returns the sums of the containers' nodes and L3 domains.
func (o *oracle) torn(each []word) (nodes, l3s int) {
	for _, w := range each {
		_, n := o.touch(o.nodes, w)
		_, l := o.touch(o.l3s, w)
		nodes, l3s = nodes+n, l3s+l
	}
	return nodes, l3s
}
