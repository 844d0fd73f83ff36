package schedule

import (
	"math"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-project/berth/internal/placement"
)

// memoShapes is how many answers a node remembers. Pods of one workload come
// one after the other, and few workloads come at the same time.
const memoShapes = 4

// memo remembers what was worked out for one state of a node: one generation of
// its NodeInfo, which no other state ever has, while nothing changes that the
// plugin knows itself. The node's lock guards it.
type memo struct {
	filled     bool
	generation int64
	results    [memoShapes]result
	next       uint8

	hits, misses uint32
}

// leftover is what ordinary pods may still request on a node in one state, in
// thousandths of a CPU. It never changes, so that it can be read without a lock.
type leftover struct {
	generation int64
	milli      int64
}

// result is the answer of a node to all pods of one shape.
type result struct {
	// shape is empty where nothing is remembered.
	shape string
	// score counts where status is nil.
	score int64
	// status is why the node refuses such pods; nil where it does not. The
	// framework writes the plugin's name into it, and asks about one node from
	// one goroutine at a time.
	status *fwk.Status
	reason refusal
}

// find returns what is remembered about a shape in this state.
func (m *memo) find(generation int64, shape string) (result, bool) {
	if m.filled && m.generation == generation {
		for i := range m.results {
			if m.results[i].shape == shape {
				return m.results[i], true
			}
		}
	}
	return result{}, false
}

// keep remembers a result in the place of the oldest one; results of another
// state are forgotten.
func (m *memo) keep(generation int64, r result) {
	if !m.filled || m.generation != generation {
		*m = memo{filled: true, generation: generation, hits: m.hits, misses: m.misses}
	}
	m.results[m.next] = r
	m.next = (m.next + 1) % memoShapes
}

// touch forgets what is remembered, because something changed that no
// generation tells of. The caller holds mu.
func (n *node) touch() {
	n.memo.filled = false
	n.left.Store(nil)
}

// recallSurplus returns what is remembered for ordinary pods.
func (n *node) recallSurplus(generation int64) (int64, bool) {
	if left := n.left.Load(); left != nil && left.generation == generation {
		return left.milli, true
	}
	return 0, false
}

// surplusOf works out what ordinary pods may still request on a node, in
// thousandths of a CPU: any amount where nobody knows the node's CPUs.
func (c *core) surplusOf(n *node, v view) int64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	left := &leftover{generation: v.info.GetGeneration(), milli: math.MaxInt64}
	if n.machine != nil {
		b := c.takeBench()
		defer c.benches.Put(b)
		left.milli = n.occupy(v, &b.occupancy).Surplus(&b.occupancy)
	}
	if !v.altered() {
		n.left.Store(left)
	}
	return left.milli
}

// recall returns what is remembered for pinned pods.
func (n *node) recall(generation int64, cy *cycle) (result, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if status, reason := n.closed(); status != nil {
		return result{status: status, reason: reason}, true
	}
	if cy.alone {
		return result{}, false
	}
	r, found := n.memo.find(generation, cy.ask.Shape)
	if found {
		n.memo.hits++
	}
	return r, found
}

// resultOf works out a node's answer to a pinned pod.
func (c *core) resultOf(n *node, v view) result {
	n.mu.Lock()
	defer n.mu.Unlock()
	if status, reason := n.closed(); status != nil {
		return result{status: status, reason: reason}
	}
	n.memo.misses++
	b := c.takeBench()
	defer c.benches.Put(b)
	r := c.decide(b, n.occupy(v, &b.occupancy), v.cy)
	if !v.altered() {
		n.memo.keep(v.info.GetGeneration(), r)
	}
	return r
}

// decide asks a node that was added up before.
func (c *core) decide(b *bench, where placement.Node, cy *cycle) result {
	r := result{shape: cy.ask.Shape}
	decision, refused := placement.Decide(&b.scratch, where, &b.occupancy, cy.ask)
	if refused.OK() {
		r.score = placement.Score(&decision)
		return r
	}
	r.reason = reasonOf(refused)
	if why := c.fits.never(b, where, cy.ask); why.text != "" {
		// No pod's end helps, so it waits for none.
		r.status, r.reason = fwk.NewStatus(fwk.UnschedulableAndUnresolvable, why.text), why.reason
		return r
	}
	r.status = fwk.NewStatus(fwk.Unschedulable, refused.String())
	return r
}

func (c *core) takeBench() *bench {
	b, _ := c.benches.Get().(*bench)
	return b
}
