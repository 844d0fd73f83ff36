package schedule

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability/place/placement"
	"github.com/berth-project/berth/internal/intent/kubepod"
	"github.com/berth-project/berth/internal/node/apiclient"
	"github.com/berth-project/berth/internal/scheduler/repack"
)

const (
	// mostRepacked bounds the nodes that are searched for moves that make room for a pod.
	mostRepacked = 4
	// mostMoves and mostLooks bound the search on each node, to some 0.1 s.
	mostMoves = 3
	mostLooks = 2000
	// searchPause is the pause after a search, as a multiple of its duration.
	searchPause = 9
)

// repacks searches for moves that would make room for pods that wait because of fragmentation, and reports them. It
// plans beside the cycles, for one pod at a time with pauses, and moves nothing. The zero value is ready for use, and
// safe for concurrent use.
type repacks struct {
	busy atomic.Bool
	// known has what was reported of pods.
	known notes[string]
}

// candidate is a node that lacks the right places for a pod.
type candidate struct {
	node   *node
	view   view
	answer *result
}

// repackable is the state of a node when a plan was requested.
type repackable struct {
	repack.Node
	name string
	// moves is the field of the node's answer.
	moves *atomic.Int32
}

// plan searches for the fewest moves on the nodes that lack least and have movable pods, unless another search is under
// way.
func (c *core) plan(short []candidate, pod *v1.Pod, recorder fwk.Handle) {
	short = slices.DeleteFunc(short, func(one candidate) bool { return !one.node.mayRepack() })
	if len(short) == 0 || !c.repacks.busy.CompareAndSwap(false, true) {
		return
	}
	slices.SortStableFunc(short, func(a, b candidate) int { return cmp.Compare(a.answer.short.Missing, b.answer.short.Missing) })
	var nodes []repackable
	for _, one := range short[:min(len(short), mostRepacked)] {
		if n, some := c.repackable(one.node, one.view); some {
			n.moves = one.answer.moves
			nodes = append(nodes, n)
		}
	}
	if len(nodes) == 0 {
		c.repacks.busy.Store(false)
		return
	}
	ask := short[0].view.cy.ask
	c.background.spawn(func(ctx context.Context) {
		c.repacks.search(ctx, func() {
			if text := fewest(ctx, nodes, ask, pod.Namespace); text != "" && c.repacks.known.first(pod, text) {
				recorder.EventRecorder().Eventf(pod, nil, v1.EventTypeNormal, v1alpha1.EventFitsAfterRepack, "Scheduling", "%s", apiclient.Note(text))
			}
		})
	})
}

// search runs one search, and delays the next for nine times as long as this one took: so all searches together use a
// tenth of a core at most.
func (r *repacks) search(ctx context.Context, once func()) {
	defer r.busy.Store(false)
	began := time.Now()
	once()
	apiclient.Pause(ctx, searchPause*time.Since(began))
}

// mayRepack reports whether a pod of the node may be moved.
func (n *node) mayRepack() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, r := range n.records {
		if r.confirmed && kubepod.OptsIntoMoves(r.pod) {
			return true
		}
	}
	return false
}

// fewest describes the moves after which a pod of the namespace has room on one of the nodes, "" if none are known. It
// stores their number in the answers of these nodes.
func fewest(ctx context.Context, nodes []repackable, ask *placement.Ask, namespace string) string {
	text, most := "", mostMoves
	for i := range nodes {
		if ctx.Err() != nil {
			return ""
		}
		plan := repack.Fewest(&nodes[i].Node, repack.Room(ask), repack.Bounds{Moves: most, Looks: mostLooks})
		if !plan.Found || len(plan.Moves) == 0 {
			continue // no moves: the snapshot is older than the answer
		}
		text = fmt.Sprintf("node %s would have room after a repack of %d: %s; kubectl berth repack %s carries it out",
			nodes[i].name, len(plan.Moves), describe(plan.Moves, namespace), nodes[i].name)
		most = len(plan.Moves) - 1
		nodes[i].moves.Store(int32(len(plan.Moves)))
	}
	return text
}

// describe lists the moves for readers of the events of the namespace; it only counts pods of other namespaces.
func describe(moves []repack.Move, namespace string) string {
	var texts []string
	for _, move := range moves {
		if strings.HasPrefix(move.Pod, namespace+"/") {
			texts = append(texts, fmt.Sprintf("%s from CPUs %s to %s", move.Pod, move.From, move.To))
		}
	}
	if others := len(moves) - len(texts); others > 0 {
		texts = append(texts, fmt.Sprintf("%d pod(s) of other namespaces", others))
	}
	return strings.Join(texts, ", ")
}

// repackable returns the node with its movable pods, and whether there are any.
func (c *core) repackable(n *node, v view) (repackable, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	out, cy := repackable{name: n.name}, *v.cy
	stay := view{info: v.info.Snapshot(), cy: &cy}
	cy.removed = map[types.UID]struct{}{}
	maps.Copy(cy.removed, v.cy.removed)
	for _, info := range v.info.GetPods() {
		one, may := n.movable(info.GetPod())
		if !may || stay.info.RemovePod(c.background.log, info.GetPod()) != nil {
			continue
		}
		out.Pods = append(out.Pods, one)
		cy.removed[info.GetPod().UID] = struct{}{}
	}
	if len(out.Pods) == 0 {
		return out, false
	}
	var all placement.Occupancy
	out.Node.Node = n.occupy(v, &all)
	n.occupy(stay, &out.Fixed)
	return out, true
}

// movable returns the pod with what it asks for and holds, false if it may not be moved. The caller holds mu.
func (n *node) movable(pod *v1.Pod) (repack.Pod, bool) {
	r := n.records[pod.UID]
	if r == nil || !r.confirmed || !kubepod.OptsIntoMoves(pod) {
		return repack.Pod{}, false
	}
	pin, problems := pinningOf(pod)
	if !pin.Wanted || !pin.Change.Movable || len(problems) > 0 {
		return repack.Pod{}, false
	}
	ask := placement.AskOf(pin)
	return repack.Pod{Name: pod.Namespace + "/" + pod.Name, Ask: &ask, Held: r.held}, true
}
