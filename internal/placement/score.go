package placement

import (
	"slices"

	"github.com/berth-project/berth/internal/alloc"
)

// field is one term of the packed vector: value as far as it fits.
type field struct {
	value, bits int
	greater     bool // a greater value is better
}

// Score packs the vector of a decision into one number, the greater the
// better, that compares between nodes: NUMA nodes first, then CPUs outside the
// preferred ones, L3 domains, cores, what is left free in the domains touched,
// distance. Each term has as many bits as its values need on a machine of 1,024
// CPUs that asks for at most some hundred; beyond that it saturates, and the
// next term decides. What is left free counts as the node's strategy says: fewer
// is better to keep whole domains free, more to spread.
func Score(d *Decision) int64 {
	v, loose := &d.Answer.Vector, d.Strategy == alloc.LeastAllocated
	fields := [...]field{
		{value: v.NUMANodes, bits: 6},
		{value: v.OffPreferred, bits: 5},
		{value: v.L3s, bits: 6},
		{},
		{},
		{value: v.FreeL3, bits: 9, greater: loose},
		{value: v.FreeNUMA, bits: 9, greater: loose},
		{value: v.FreeSocket, bits: 10, greater: loose},
		{value: v.Distance / distanceStep, bits: 3},
	}
	if d.Bind == alloc.SpreadByPCPUs {
		fields[3] = field{value: v.Cores, bits: 10, greater: true}
		fields[4] = field{bits: 5}
	} else {
		fields[3], fields[4] = field{value: v.Split, bits: 7}, field{value: v.Broken, bits: 8}
	}
	score := int64(0)
	for _, f := range fields {
		most := 1<<f.bits - 1
		value := min(max(f.value, 0), most)
		if !f.greater {
			value = most - value
		}
		score = score<<f.bits | int64(value)
	}
	return score
}

// distanceStep is how coarsely distances are compared between nodes of the
// cluster: a remote NUMA node is some 10 to 20 farther than a local one.
const distanceStep = 16

// best is the highest score of a node in kube-scheduler.
const best = 100

// Normalize replaces scores by their rank among the distinct ones, spread over
// 0 to 100. Rank r of 0 to k becomes band r*100/k, rounded down: the best is 100
// and alone there, the worst is 0 (but 100 where all are equal), and equal
// scores stay equal. Up to 101 distinct scores keep a band each, evenly apart.
// Of more, neighbours below the best share a band, as many ranks in each as in
// any other, so that order is never turned round.
func Normalize(scores []int64) {
	ranks := slices.Clone(scores)
	slices.Sort(ranks)
	ranks = slices.Compact(ranks)
	last := len(ranks) - 1
	for i, score := range scores {
		rank, _ := slices.BinarySearch(ranks, score)
		if rank == last {
			scores[i] = best
			continue
		}
		scores[i] = int64(rank * best / last)
	}
}
