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
// better, that compares between nodes in the order of the vector. First comes
// what the pod itself has of the place: whether its devices are near, NUMA nodes,
// whether these hold its memory, CPUs outside the preferred ones, sockets, distance, L3 domains, cores. The last packingBits have what
// counts for the pods after it: cores that it breaks, and what is left free in
// the domains touched. Each term has as many bits as its values mostly need;
// beyond that it saturates, and the next term decides. What is left free counts
// as the strategy says: fewer is better to keep whole domains free, more to
// spread.
func Score(d *Decision) int64 {
	v, loose := &d.Answer.Vector, d.Strategy.Spreads(d.Answer.Vector.NUMANodes)
	cores, broken := field{value: v.Split, bits: 8}, v.Broken
	if d.Bind == alloc.SpreadByPCPUs {
		cores, broken = field{value: v.Cores, bits: 8, greater: true}, 0
	}
	score := int64(0)
	for _, f := range [...]field{
		{value: d.FarDevices, bits: 1},
		{value: v.NUMANodes, bits: 4},
		{value: v.Unheld, bits: 1},
		{value: v.OffPreferred, bits: 4},
		{value: v.Sockets - 1, bits: 3}, // a machine that shows none is no better than one of one
		{value: v.Distance / distanceStep, bits: 4},
		{value: v.L3s, bits: 5},
		cores,
		{value: broken, bits: 6},
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
	// freeBits are those of a term of free CPUs, packingBits those of all terms
	// from the broken cores on.
	freeBits    = 9
	packingBits = 6 + 3*freeBits
	// distanceStep is how coarsely distances are compared between nodes of the
	// cluster: a remote NUMA node is some 10 to 20 farther than a local one.
	distanceStep = 16
)

const (
	// best is the highest score of a node in kube-scheduler.
	best = 100
	// packingMost is how much of it packing may decide: with the plugin's weight
	// of 10 less than what a pod asks of other plugins, such as 200 for a pod's
	// spreading and 300 for a taint that it would rather avoid.
	packingMost = 10
)

// Normalize replaces scores by points of 0 to 100, so that order is never turned
// round, the best is 100 and alone there, and equal scores stay equal. Scores
// that differ in locality are ranked, and the ranks spread evenly over 0 to 90.
// What packing adds to a rank is at most 10 points, and less than the distance to
// the next rank: its own rank among the nodes of equal locality, the last one 0.
// Of many distinct scores, neighbours below the best share points.
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

// locality is the rank of distinct scores, from first to last, that are equal but
// for packing, which decides within the width.
type locality struct {
	first, last  int
	floor, width int64
}

// localities returns for each of the distinct scores, in ascending order, its rank.
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

// share is the part of width that a rank of 0 to last gets, rounded down; all of
// it where there is only one.
func share(rank, last int, width int64) int64 {
	if last == 0 {
		return width
	}
	return int64(rank) * width / int64(last)
}
