package simulate

import "math"

// refusing is the score of a node that refuses the pod.
const refusing = math.MinInt64

// ranking finds the greatest of the nodes' scores. After a change it compares only as many as the logarithm of their
// number.
type ranking struct {
	// tree is a binary tree: each element leads the elements 2i and 2i+1, and its last half has the scores of the nodes.
	tree []leader
}

// leader is the first node with the greatest score of some nodes.
type leader struct {
	score int64
	node  int // its index
	nodes int // how many have that score
}

// newRanking returns a ranking of so many nodes, all of which refuse.
func newRanking(nodes int) ranking {
	half := 1
	for half < nodes {
		half *= 2
	}
	r := ranking{make([]leader, 2*half)}
	for i := range r.tree {
		r.tree[i].score = refusing
	}
	return r
}

// set sets the score of a node.
func (r ranking) set(node int, score int64) {
	i := len(r.tree)/2 + node
	r.tree[i] = leader{score, node, 1}
	for i /= 2; i > 0; i /= 2 {
		r.tree[i] = first(r.tree[2*i], r.tree[2*i+1])
	}
}

// leader returns the leader of all nodes.
func (r ranking) leader() leader { return r.tree[1] }

// first returns the leader of the nodes of two leaders; those of a come first.
func first(a, b leader) leader {
	if b.score > a.score {
		return b
	}
	if b.score == a.score {
		a.nodes += b.nodes
	}
	return a
}
