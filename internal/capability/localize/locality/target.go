package locality

import (
	"cmp"
	"errors"
	"math"
	"slices"

	"github.com/berth-project/berth/internal/value/cpuset"
)

// ErrNoTarget means that no memory node is better than another: the host has one node, or the CPUs are on all nodes.
var ErrNoTarget = errors.New("no target numa")

// Node is one NUMA node, as the decision needs it.
type Node struct {
	ID   int
	CPUs cpuset.Set
	// Distances are the firmware's distances to the nodes, in the order of Nodes. Without them all nodes are equally
	// far.
	Distances []int
	// Bytes is the size of the node's memory, Tier the tier of that memory; pages stay in their tier.
	Bytes int64
	Tier  int
}

// Nodes is all nodes of a host, in the order of their ids.
type Nodes []Node

// Pair is a direction in which pages move: from one node to another.
type Pair struct {
	From int `json:"from"`
	To   int `json:"to"`
}

// Memory returns the nodes with memory.
func (ns Nodes) Memory() cpuset.Set {
	var all cpuset.Set
	for _, n := range ns {
		if n.Bytes > 0 {
			all = all.Add(n.ID)
		}
	}
	return all
}

// Local returns the memory nodes of the CPUs. For a node with CPUs and without memory that is the nearest node with
// memory. The error is ErrNoTarget if no page may move to the local nodes.
func (ns Nodes) Local(cpus cpuset.Set) (cpuset.Set, error) {
	var local cpuset.Set
	for i := range ns {
		if !ns[i].CPUs.Intersects(cpus) {
			continue
		}
		if at := ns.nearest(i); at >= 0 {
			local = local.Add(ns[at].ID)
		}
	}
	if len(ns.Targets(local, func(int) int64 { return 0 })) == 0 {
		return cpuset.Set{}, ErrNoTarget
	}
	return local, nil
}

// Targets returns the local nodes to which the pages of each remote node move, best first: the nearest node, then the
// node with the most room. A node from which no page may move is not in the map.
func (ns Nodes) Targets(local cpuset.Set, room func(node int) int64) map[int][]int {
	targets := map[int][]int{}
	for i, from := range ns {
		if from.Bytes == 0 || local.Contains(from.ID) {
			continue
		}
		var to []int // positions in ns
		for j, n := range ns {
			if n.Bytes > 0 && n.Tier == from.Tier && local.Contains(n.ID) {
				to = append(to, j)
			}
		}
		slices.SortStableFunc(to, func(a, b int) int {
			return cmp.Or(cmp.Compare(ns.distance(i, a), ns.distance(i, b)), cmp.Compare(room(ns[b].ID), room(ns[a].ID)))
		})
		for _, j := range to {
			targets[from.ID] = append(targets[from.ID], ns[j].ID)
		}
	}
	return targets
}

// nearest returns the position of the node with memory that is nearest to the node at position from, which may be from
// itself, or -1.
func (ns Nodes) nearest(from int) int {
	best, least := -1, math.MaxInt
	if ns[from].Bytes > 0 {
		return from
	}
	for i := range ns {
		if d := ns.distance(from, i); ns[i].Bytes > 0 && d < least {
			best, least = i, d
		}
	}
	return best
}

func (ns Nodes) distance(from, to int) int {
	if d := ns[from].Distances; to < len(d) {
		return d[to]
	}
	return 0
}
