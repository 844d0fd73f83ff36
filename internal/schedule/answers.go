package schedule

import (
	"math"
	"sync"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-project/berth/internal/alloc"
	"github.com/berth-project/berth/internal/placement"
)

// answers works out what nodes say to pods, and has what that needs: room to decide,
// and what empty nodes say. What a node said it remembers itself (memo). It is safe for
// concurrent use.
type answers struct {
	fits fits
	// benches are *bench: what a decision needs and drops afterwards.
	benches sync.Pool
}

// bench is room for one decision at a time.
type bench struct {
	scratch   alloc.Scratch
	occupancy placement.Occupancy
}

// surplusOf works out what ordinary pods may still request on a node, in
// thousandths of a CPU: any amount where the node's CPUs are not known.
func (a *answers) surplusOf(n *node, v view) int64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	left := &spare{at: v.cy.moment(v.info), milli: math.MaxInt64}
	if n.machine != nil {
		b := a.takeBench()
		defer a.benches.Put(b)
		left.milli = n.occupy(v, &b.occupancy).Surplus(&b.occupancy)
	}
	if !v.altered() {
		n.left.Store(left)
	}
	return left.milli
}

// resultOf works out a node's answer to a pinned pod.
func (a *answers) resultOf(n *node, v view) *result {
	n.mu.Lock()
	defer n.mu.Unlock()
	if status, reason := n.closed(); status != nil {
		return &result{status: status, reason: reason}
	}
	b := a.takeBench()
	defer a.benches.Put(b)
	where := n.occupy(v, &b.occupancy)
	if v.altered() {
		n.memo.misses++
		return a.decide(b, where, v.cy)
	}
	at := v.cy.moment(v.info)
	n.memo.renew(at, where, &b.occupancy)
	if r := n.memo.find(at, v.cy.shape); r != nil {
		n.memo.hits.Add(1)
		return r
	}
	n.memo.misses++
	r := a.decide(b, where, v.cy)
	r.at = at
	n.memo.keep(r)
	return r
}

// decide asks a node that was added up before.
func (a *answers) decide(b *bench, where placement.Node, cy *cycle) *result {
	r := &result{shape: cy.shape}
	decision, refused := placement.Decide(&b.scratch, where, &b.occupancy, cy.ask)
	if refused.OK() {
		r.score = placement.Score(&decision)
		return r
	}
	r.reason = reasonOf(refused)
	if why := a.fits.never(b, where, cy); why.text != "" {
		// No pod's end helps, so it waits for none.
		r.status, r.reason = fwk.NewStatus(fwk.UnschedulableAndUnresolvable, why.text), why.reason
		return r
	}
	r.status = fwk.NewStatus(fwk.Unschedulable, refused.Reason())
	return r
}

func (a *answers) takeBench() *bench {
	b, _ := a.benches.Get().(*bench)
	return b
}

// trial decides for a pod that is in the NodeInfo already without being bound,
// and reserves nothing.
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
