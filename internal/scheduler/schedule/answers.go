package schedule

import (
	"math"
	"sync"
	"sync/atomic"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-project/berth/internal/capability/place/alloc"
	"github.com/berth-project/berth/internal/capability/place/placement"
)

// answers computes what nodes answer to pods, and holds what that needs: scratch space and the answers of empty nodes.
// Each node remembers its own answers (memo). It is safe for concurrent use.
type answers struct {
	mu sync.Mutex
	// empty has the answers of empty nodes.
	empty map[fitsKey]never
	// walked counts the answers that walks found remembered.
	walked atomic.Uint32
	// benches holds *bench values, which a decision needs only while it runs.
	benches sync.Pool
}

// bench is scratch space for one decision at a time.
type bench struct {
	scratch   alloc.Scratch
	occupancy placement.Occupancy
}

// surplusOf returns how much CPU ordinary pods may still request on a node, in thousandths of a CPU: any amount if the
// node's CPUs are not known. behind reports whether the view is older than what is known of a pod.
func (a *answers) surplusOf(n *node, v view) (milli int64, behind bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.behind = false
	left := &spare{at: v.cy.moment(v.info), milli: math.MaxInt64}
	if n.machine != nil {
		b := a.takeBench()
		defer a.benches.Put(b)
		where := n.occupy(v, &b.occupancy)
		left.milli = where.Surplus(&b.occupancy)
	}
	if !v.altered() && !n.behind {
		n.left.Store(left)
	}
	return left.milli, n.behind
}

// resultOf returns a node's answer to a pinned pod.
func (a *answers) resultOf(n *node, v view) *result {
	n.mu.Lock()
	defer n.mu.Unlock()
	if status, reason := n.closed(); status != nil {
		return &result{status: status, reason: reason}
	}
	b := a.takeBench()
	defer a.benches.Put(b)
	where := n.occupy(v, &b.occupancy)
	if v.altered() || n.behind {
		n.memo.misses++
		r := a.decide(b, where, v.cy, v.cy.claimed.on(n))
		r.behind = n.behind
		return r
	}
	at := v.cy.moment(v.info)
	n.memo.renew(at, where, &b.occupancy)
	if r := n.memo.find(at, v.cy.shape); r != nil {
		n.memo.hits.Add(1)
		return r
	}
	n.memo.misses++
	r := a.decide(b, where, v.cy, nil)
	r.at = at
	n.memo.keep(r)
	return r
}

// decide returns the answer of a node whose pods are already added up in b. Devices that the pod may get by claims
// affect only the score, and never keep the pod off a node.
func (a *answers) decide(b *bench, where placement.Node, cy *cycle, claims *placement.Claims) *result {
	r := &result{shape: cy.shape}
	decision, refused := placement.Decide(&b.scratch, where, &b.occupancy, cy.ask)
	if refused.OK() {
		if near := where; claims != nil {
			near.Claims = claims
			if with, no := placement.Decide(&b.scratch, near, &b.occupancy, cy.ask); no.OK() {
				decision = with
			}
		}
		r.score = placement.Score(&decision)
		return r
	}
	r.reason = reasonOf(refused)
	if why := a.never(b, where, cy); why.text != "" {
		// The end of another pod would not help.
		r.status, r.reason = fwk.NewStatus(fwk.UnschedulableAndUnresolvable, why.text), why.reason
		return r
	}
	code := fwk.Unschedulable
	if refused.Code == placement.Resizing {
		code = fwk.UnschedulableAndUnresolvable // a resize ends soon: no pod is evicted for it
	}
	r.status = fwk.NewStatus(code, refused.Reason())
	if short, lacks := where.Shortage(&b.occupancy, cy.ask, refused); lacks {
		r.short, r.moves = new(short), new(atomic.Int32)
	}
	return r
}

func (a *answers) takeBench() *bench {
	b, _ := a.benches.Get().(*bench)
	return b
}

// trial decides for a pod that is in the NodeInfo already but not bound. It reserves nothing.
func (a *answers) trial(n *node, info fwk.NodeInfo, its *cycle) (placement.Held, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if status, _ := n.closed(); status != nil {
		return placement.Held{}, false
	}
	b := a.takeBench()
	defer a.benches.Put(b)
	where := n.occupy(view{info: info, cy: its}, &b.occupancy)
	decision, refused := placement.Decide(&b.scratch, where, &b.occupancy, its.ask)
	if !refused.OK() {
		return placement.Held{}, false
	}
	return decision.Held(its.ask), true
}
