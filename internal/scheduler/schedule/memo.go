package schedule

import (
	"sync/atomic"
	"unique"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-project/berth/internal/capability/place/placement"
)

// memoShapes is how many answers a node remembers. Pods of one workload come in succession, and few workloads come at
// the same time.
const memoShapes = 4

// memo remembers the results for one state of a node: one generation of its NodeInfo, which is unique, and later ones
// with the same basis, until touch. Results never change except moves, so readers need no lock. The node's lock guards
// writes.
type memo struct {
	results [memoShapes]atomic.Pointer[result]
	hits    atomic.Uint32
	misses  uint32
	// basis is what the results of the last generation were computed from, nil before the first.
	basis *basis
}

// moment is one state of a NodeInfo. Its generation is unique to it, except in the cycle of a pod group: there the
// framework adds and removes pods of the group, and keeps the generation. Then the moment also has the number of pods
// and their requests. An answer depends on nothing else except what pinned pods hold; when a pinned pod comes or goes,
// Reserve and Unreserve forget the answers.
type moment struct {
	generation int64
	// group is a hash of the number of pods and their requests, 0 outside the cycle of a group.
	group uint64
}

// moment returns the state of a NodeInfo as the cycle sees it.
func (c *cycle) moment(info fwk.NodeInfo) moment {
	at := moment{generation: info.GetGeneration()}
	if c != nil && c.group {
		const golden = 0x9E3779B97F4A7C15 // odd, so that multiplication loses nothing
		requested := info.GetRequested()
		mix := func(n int64) {
			at.group = (at.group ^ uint64(n)) * golden
			at.group ^= at.group >> 32
		}
		mix(requested.GetMemory())
		mix(requested.GetMilliCPU())
		mix(int64(len(info.GetPods())))
		pieces := uint64(0) // independent of the order
		for name, count := range requested.GetScalarResources() {
			pieces += mixed(string(name)) * uint64(count)
		}
		mix(int64(pieces))
	}
	return at
}

// mixed is the FNV-1a hash of a text.
func mixed(text string) uint64 {
	const basis, prime = 14695981039346656037, 1099511628211
	h := uint64(basis)
	for i := range len(text) {
		h = (h ^ uint64(text[i])) * prime
	}
	return h
}

// basis is all that answers depend on apart from the pod. A NodeInfo gets a new generation for much else: a reserved
// pod that is seen bound, a status.
type basis struct {
	at        moment
	where     placement.Node
	occupancy placement.Occupancy
}

// renew carries the answers of the previous generation over to this one if both have the same basis, and records the
// basis. So all answers of one generation have that basis. Two views of one state share no answers if their sums
// differ, for example when one is for a pod that is there already.
func (m *memo) renew(at moment, where placement.Node, o *placement.Occupancy) {
	if m.basis == nil {
		m.basis = new(basis)
	}
	b := m.basis
	if b.where == where && b.occupancy.Equal(o) {
		for i := range m.results {
			if r := m.results[i].Load(); r != nil && r.at == b.at {
				renewed := *r
				renewed.at = at
				m.results[i].Store(&renewed)
			}
		}
	} else {
		if b.at == at {
			m.forget()
		}
		b.where, b.occupancy = where, o.Clone()
	}
	b.at = at
}

// spare is how much CPU ordinary pods may still request on a node in one state, in thousandths. It never changes, so
// readers need no lock.
type spare struct {
	at    moment
	milli int64
}

// result is the answer of a node to all pods of one shape, in one state.
type result struct {
	at    moment
	shape unique.Handle[string]
	// score is valid if status is nil.
	score int64
	// status is why the node refuses the pods, nil if it does not. The framework writes the plugin's name into it, and
	// asks about one node from one goroutine at a time.
	status *fwk.Status
	reason refusal
	// behind reports that the view is older than what is known of a pod.
	behind bool
	// short is what the node lacks if it refuses the pods because of fragmentation.
	short *placement.Shortage
	// moves is how many moves of other pods would make room, 0 if not known. It is the only field that changes; results
	// of later generations share it. It is set if short is.
	moves *atomic.Int32
}

// find returns the result for a shape in this state, nil for none.
func (m *memo) find(at moment, shape unique.Handle[string]) *result {
	for i := range m.results {
		if r := m.results[i].Load(); r != nil && r.at == at && r.shape == shape {
			return r
		}
	}
	return nil
}

// keep replaces the oldest result with r, and puts r first in the search order.
func (m *memo) keep(r *result) {
	for i := memoShapes - 1; i > 0; i-- {
		m.results[i].Store(m.results[i-1].Load())
	}
	m.results[0].Store(r)
}

// forget forgets everything.
func (m *memo) forget() {
	for i := range m.results {
		m.results[i].Store(nil)
	}
}

// touch forgets all answers, because something changed that no generation covers. The caller holds mu.
func (n *node) touch() {
	n.memo.forget()
	n.left.Store(nil)
	n.weigh()
}

// recallSurplus returns the remembered surplus for ordinary pods.
func (n *node) recallSurplus(at moment) (int64, bool) {
	if left := n.left.Load(); left != nil && left.at == at {
		return left.milli, true
	}
	return 0, false
}

// recall returns the remembered result for pinned pods, nil for none.
func (n *node) recall(at moment, cy *cycle) *result {
	r := n.peek(at, cy)
	if r != nil && r.at == at {
		n.memo.hits.Add(1)
	}
	return r
}

// peek is recall without counting a hit.
func (n *node) peek(at moment, cy *cycle) *result {
	if shut := n.shut.Load(); shut != nil {
		return shut
	}
	if cy.alone || cy.claimed != nil {
		return nil
	}
	return n.memo.find(at, cy.shape)
}
