package schedule

import (
	"sync/atomic"
	"unique"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-project/berth/internal/placement"
)

// memoShapes is how many answers a node remembers. Pods of one workload come
// one after the other, and few workloads come at the same time.
const memoShapes = 4

// memo remembers what was worked out for one state of a node: one generation of
// its NodeInfo, which no other state ever has, and those after it that differ in
// nothing an answer depends on, while nothing changes that the plugin knows itself.
// Results never change but for moves, so that they can be read without a lock; the node's lock
// guards what is written.
type memo struct {
	results [memoShapes]atomic.Pointer[result]
	hits    atomic.Uint32
	misses  uint32
	// basis is what the results of the last generation were worked out from, nil
	// before there are any.
	basis *basis
}

// moment is one state of a NodeInfo. No other state of a node has its generation, but
// in the cycle of a pod group: there the framework adds pods of the group, takes them
// away again, and keeps the generation. Then the moment has the number of pods too,
// and what they request, which is all that an answer depends on besides what pinned
// pods hold. Where one of those comes or goes, Reserve and Unreserve forget.
type moment struct {
	generation int64
	// group mixes pods and requests, 0 outside the cycle of a group.
	group uint64
}

// moment returns the state of a NodeInfo as the cycle sees it.
func (c *cycle) moment(info fwk.NodeInfo) moment {
	at := moment{generation: info.GetGeneration()}
	if c != nil && c.group {
		const golden = 0x9E3779B97F4A7C15 // odd, so that nothing is lost
		requested := info.GetRequested()
		mix := func(n int64) {
			at.group = (at.group ^ uint64(n)) * golden
			at.group ^= at.group >> 32
		}
		mix(requested.GetMemory())
		mix(requested.GetMilliCPU())
		mix(int64(len(info.GetPods())))
		pieces := uint64(0) // in any order
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

// basis is all that answers depend on besides the pod. A NodeInfo gets a new
// generation for much else: a reserved pod that is seen bound, a status.
type basis struct {
	at        moment
	where     placement.Node
	occupancy placement.Occupancy
}

// renew makes the answers of the generation before those of this one, where both
// have the same basis, and notes the basis. All answers of one generation then have
// the basis that is noted: two looks at one state that add up differently, such as
// when one is for a pod that turns out to be there already, share none.
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

// spare is what ordinary pods may still request on a node in one state, in
// thousandths of a CPU. It never changes, so that it can be read without a lock.
type spare struct {
	at    moment
	milli int64
}

// result is the answer of a node to all pods of one shape, in one state.
type result struct {
	at    moment
	shape unique.Handle[string]
	// score counts where status is nil.
	score int64
	// status is why the node refuses such pods; nil where it does not. The
	// framework writes the plugin's name into it, and asks about one node from
	// one goroutine at a time.
	status *fwk.Status
	reason refusal
	// behind says that the view which was answered is older than what is known of a pod.
	behind bool
	// short is what the node lacks where it refuses such pods because of fragmentation.
	short *placement.Shortage
	// moves is after how many moves of other pods the node would take such pods, 0 while that is not
	// known; the only part that changes, shared by the results of later generations. It is there
	// where short is.
	moves *atomic.Int32
}

// find returns what is remembered about a shape in this state, nil for nothing.
func (m *memo) find(at moment, shape unique.Handle[string]) *result {
	for i := range m.results {
		if r := m.results[i].Load(); r != nil && r.at == at && r.shape == shape {
			return r
		}
	}
	return nil
}

// keep remembers a result in the place of the oldest one, and makes it the first
// to be looked at.
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

// touch forgets what is remembered, because something changed that no
// generation covers. The caller holds mu.
func (n *node) touch() {
	n.memo.forget()
	n.left.Store(nil)
	n.weigh()
}

// recallSurplus returns what is remembered for ordinary pods.
func (n *node) recallSurplus(at moment) (int64, bool) {
	if left := n.left.Load(); left != nil && left.at == at {
		return left.milli, true
	}
	return 0, false
}

// recall returns what is remembered for pinned pods, nil for nothing.
func (n *node) recall(at moment, cy *cycle) *result {
	r := n.peek(at, cy)
	if r != nil && r.at == at {
		n.memo.hits.Add(1)
	}
	return r
}

// peek does so and counts nothing.
func (n *node) peek(at moment, cy *cycle) *result {
	if shut := n.shut.Load(); shut != nil {
		return shut
	}
	if cy.alone || cy.claimed != nil {
		return nil
	}
	return n.memo.find(at, cy.shape)
}
