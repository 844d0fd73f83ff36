package schedule

import (
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-project/berth/internal/placement"
)

// memoShapes is how many answers a node remembers. Pods of one workload come
// one after the other, and few workloads come at the same time.
const memoShapes = 4

// memo remembers what was worked out for one state of a node: one generation of
// its NodeInfo, which no other state ever has, and one epoch of what the plugin
// knows itself. The node's lock guards it.
type memo struct {
	generation int64
	epoch      uint64
	filled     bool
	// surplus is what ordinary pods may still request, in thousandths of a CPU.
	surplus int64
	results [memoShapes]result
	next    uint8

	hits, misses uint32
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

// holdsFor says whether what is remembered is about this state.
func (m *memo) holdsFor(generation int64, epoch uint64) bool {
	return m.filled && m.generation == generation && m.epoch == epoch
}

// begin forgets everything and remembers the surplus of a state.
func (m *memo) begin(generation int64, epoch uint64, surplus int64) {
	*m = memo{
		generation: generation, epoch: epoch, filled: true, surplus: surplus,
		hits: m.hits, misses: m.misses,
	}
}

// find returns what is remembered about a shape.
func (m *memo) find(shape string) (result, bool) {
	for i := range m.results {
		if m.results[i].shape == shape {
			return m.results[i], true
		}
	}
	return result{}, false
}

// keep remembers a result in the place of the oldest one.
func (m *memo) keep(r result) {
	m.results[m.next] = r
	m.next = (m.next + 1) % memoShapes
}

// surplusOf returns what ordinary pods may still request on a node, in
// thousandths of a CPU, and false where no rule applies because nobody knows
// the node's CPUs.
func (c *core) surplusOf(n *node, v view) (int64, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.machine == nil {
		return 0, false
	}
	generation := v.info.GetGeneration()
	if !v.altered() && n.memo.holdsFor(generation, n.epoch) {
		n.memo.hits++
		return n.memo.surplus, true
	}
	n.memo.misses++
	b := c.takeBench()
	defer c.benches.Put(b)
	surplus := n.occupy(v, &b.occupancy).Surplus(&b.occupancy)
	if !v.altered() {
		n.memo.begin(generation, n.epoch, surplus)
	}
	return surplus, true
}

// resultOf returns a node's answer to a pinned pod: from memory where it was
// asked the same in the same state before.
func (c *core) resultOf(n *node, v view) result {
	n.mu.Lock()
	defer n.mu.Unlock()
	if status, reason := n.closed(); status != nil {
		return result{status: status, reason: reason}
	}
	generation := v.info.GetGeneration()
	remember := !v.altered()
	if remember && n.memo.holdsFor(generation, n.epoch) {
		if r, found := n.memo.find(v.cy.ask.Shape); found {
			n.memo.hits++
			return r
		}
	}
	n.memo.misses++
	b := c.takeBench()
	defer c.benches.Put(b)
	where := n.occupy(v, &b.occupancy)
	r := c.decide(b, where, v.cy)
	if !remember {
		return r
	}
	if !n.memo.holdsFor(generation, n.epoch) {
		n.memo.begin(generation, n.epoch, where.Surplus(&b.occupancy))
	}
	n.memo.keep(r)
	return r
}

// decide asks a node that was added up before.
func (c *core) decide(b *bench, where placement.Node, cy *cycle) result {
	r := result{shape: cy.ask.Shape}
	decision, refused := placement.Decide(&b.scratch, where, &b.occupancy, &cy.ask)
	if refused.OK() {
		r.score = placement.Score(&decision)
		return r
	}
	code := fwk.Unschedulable
	if refused.Permanent() || !c.fits.emptyWouldDo(b, where, &cy.ask) {
		code = fwk.UnschedulableAndUnresolvable
	}
	r.status = fwk.NewStatus(code, refused.String())
	r.reason = reasonOf(refused)
	return r
}

func (c *core) takeBench() *bench {
	b, _ := c.benches.Get().(*bench)
	return b
}
