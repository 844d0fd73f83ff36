package placement

import (
	"slices"

	"github.com/berth-project/berth/internal/capability/place/alloc"
)

// field is one term of the packed vector; its value saturates.
type field struct {
	value, bits int
	greater     bool // a greater value is better
}

// Score packs the vector of a decision into one number that compares between nodes in the order of the vector; greater
// is better. The first terms are the locality of the pod: its kinds of devices that are far, NUMA nodes, whether these
// hold its memory, CPUs outside the preferred nodes, sockets, distance, L3 domains, cores. The last packingBits matter
// for later pods: cores that the decision breaks, and free CPUs left in the touched domains. Each term has as many bits
// as its values mostly need; beyond that it saturates, and the next term decides. Fewer free CPUs left are better for
// strategies that keep whole domains free, more for strategies that spread.
func Score(d *Decision) int64 {
	v, loose := &d.Answer.Vector, d.Strategy.Spreads(d.Answer.Vector.NUMANodes)
	cores, broken := field{value: v.Split, bits: 8}, v.Broken
	if d.Bind == alloc.SpreadByPCPUs {
		cores, broken = field{value: v.Cores, bits: 8, greater: true}, 0
	}
	score := int64(0)
	for _, f := range [...]field{
		{value: v.FarDevices, bits: 2},
		{value: v.NUMANodes, bits: 4},
		{value: v.Unheld, bits: 1},
		{value: v.OffPreferred, bits: 4},
		{value: v.Sockets - 1, bits: 3}, // a machine that reports no sockets is no better than a machine with one
		{value: v.Distance / distanceStep, bits: 4},
		{value: v.L3s, bits: 5},
		cores,
		{value: broken, bits: brokenBits},
		{value: v.FreeL3, bits: freeBits, greater: loose},
		{value: v.FreeNUMA, bits: freeBits, greater: loose},
		{value: v.FreeSocket, bits: freeBits, greater: loose},
	} {
		most := 1<<f.bits - 1
		value := min(max(f.value, 0), most)
		if !f.greater {
			value = most - value
		}
		score = score<<f.bits | int64(value)
	}
	return score
}

const (
	// brokenBits is the size of the term of broken cores, freeBits of a term of free CPUs, packingBits of all these.
	brokenBits  = 5
	freeBits    = 9
	packingBits = brokenBits + 3*freeBits
	// distanceStep is the unit in which distances are compared between nodes of the cluster: a remote NUMA node is some
	// 10 to 20 farther than a local one.
	distanceStep = 16
)

const (
	// best is the highest score of a node in kube-scheduler.
	best = 100
	// packingMost is how many points packing may decide. With the plugin's weight of 10 that is less than the weight of
	// other plugins: 200 for a pod's spreading, for example, and 300 for a taint that it prefers to avoid.
	packingMost = 10
)

// Normalize replaces scores by points of 0 to 100. It never reverses the order; only the best score has 100, and equal
// scores stay equal. Scores that differ in locality are ranked, and the ranks are spread evenly over 0 to 90. Packing
// adds at most 10 points to a rank, and less than the distance to the next rank. They come from the score's own rank
// among the nodes of equal locality; the last one adds 0. If there are many distinct scores, neighbors below the best
// share points.
func Normalize(scores []int64) {
	distinct := slices.Clone(scores)
	slices.Sort(distinct)
	distinct = slices.Compact(distinct)
	ranks := localities(distinct)
	for i, score := range scores {
		at, _ := slices.BinarySearch(distinct, score)
		r := ranks[at]
		scores[i] = r.floor + share(at-r.first, r.last-r.first, r.width)
	}
}

// locality is the rank of the distinct scores from first to last that differ only in packing, which decides within
// width.
type locality struct {
	first, last  int
	floor, width int64
}

// localities returns the rank of each of the distinct scores, in ascending order.
func localities(distinct []int64) []locality {
	ranks, number := make([]locality, len(distinct)), make([]int64, len(distinct))
	for i, score := range distinct {
		ranks[i].first = i
		if i > 0 && score>>packingBits == distinct[i-1]>>packingBits {
			ranks[i].first, number[i] = ranks[i-1].first, number[i-1]
		} else if i > 0 {
			number[i] = number[i-1] + 1
		}
	}
	for i := len(distinct) - 1; i >= 0; i-- {
		r := &ranks[i]
		if r.last = i; i < len(distinct)-1 && ranks[i+1].first == r.first {
			*r = ranks[i+1]
			continue
		}
		next := int64(best + 1)
		r.floor = best - packingMost
		if i < len(distinct)-1 {
			next, r.floor = ranks[i+1].floor, number[i]*r.floor/number[len(number)-1]
		}
		r.width = min(max(next-r.floor-1, 0), packingMost)
	}
	return ranks
}

// share returns the part of width for a rank of 0 to last, rounded down; all of it if there is only one rank.
func share(rank, last int, width int64) int64 {
	if last == 0 {
		return width
	}
	return int64(rank) * width / int64(last)
}
