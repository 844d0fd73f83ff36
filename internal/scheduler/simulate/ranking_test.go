package simulate

import (
	"math/rand/v2"
	"testing"
)

// TestRanking compares the leader after each change with a search of all scores.
func TestRanking(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for nodes := range 40 {
		r := newRanking(nodes)
		if got := r.leader(); got.score != refusing {
			t.Fatalf("%d nodes that all refuse: %+v leads", nodes, got)
		}
		scores := make([]int64, nodes)
		for i := range scores {
			scores[i] = refusing
		}
		for range 20 * nodes {
			node := random.IntN(nodes)
			scores[node] = []int64{refusing, -1, 0, 5}[random.IntN(4)]
			r.set(node, scores[node])
			want := leader{score: refusing}
			for i, score := range scores {
				switch {
				case score > want.score:
					want = leader{score, i, 1}
				case score == want.score:
					want.nodes++
				}
			}
			if got := r.leader(); got.score != want.score || want.score != refusing && got != want {
				t.Fatalf("%d nodes: %+v leads, want %+v of %v", nodes, got, want, scores)
			}
		}
	}
}
