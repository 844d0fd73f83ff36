package load

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"
)

// Pair is the samples of two arms of one repetition, which had the same arrivals.
type Pair struct {
	Arm, Reference []Sample
}

// Ratio is a figure of one arm over that of another arm, with the 95 % interval.
type Ratio struct {
	Estimate float64 `json:"estimate"`
	Low      float64 `json:"low"`
	High     float64 `json:"high"`
}

// Parameters of the bootstrap.
const (
	// resamples leaves 25 values beyond either end of the interval.
	resamples = 1000
	// block is the length of the stretches of time that are drawn as a unit. The requests of a burst wait together, so
	// single samples are far from independent; a throttled burst is over after a few hundred milliseconds.
	block = time.Second
	// bootstrapSeed is fixed: the same samples give the same interval.
	bootstrapSeed = 1
)

// PairedRatio compares quantile q of two arms over paired repetitions. The estimate is the quantile of all the arm's
// samples, pooled over repetitions, divided by the same quantile of the reference. Its interval is a two-level
// percentile bootstrap. It draws repetitions with replacement and, within each drawn repetition, blocks of one second
// of intended time, the same blocks for both arms. So it contains both the machine's drift between repetitions and the
// chance within each. Two levels overstate rather than understate the width.
//
// ok is false, and the ratio zero, when the pooled samples of either arm do not support q, or the reference's quantile
// is 0.
func PairedRatio(pairs []Pair, q float64) (ratio Ratio, ok bool) {
	arm, reference := pool(pairs, armOf), pool(pairs, referenceOf)
	if !Supported(len(arm.ranked), q) || !Supported(len(reference.ranked), q) {
		return Ratio{}, false
	}
	blocks := max(arm.blocks, reference.blocks)
	weights := newWeights(len(pairs), blocks)
	weights.fill(1)
	base := reference.quantile(q, weights)
	if base <= 0 {
		return Ratio{}, false
	}
	ratio.Estimate = float64(arm.quantile(q, weights)) / float64(base)

	random := rand.New(rand.NewPCG(bootstrapSeed, 2))
	ratios := make([]float64, 0, resamples)
	for range resamples {
		weights.draw(random, pairs)
		if base := reference.quantile(q, weights); base > 0 {
			ratios = append(ratios, float64(arm.quantile(q, weights))/float64(base))
		}
	}
	slices.Sort(ratios)
	if len(ratios) == 0 {
		return Ratio{}, false
	}
	ratio.Low, ratio.High = interval(ratios)
	return ratio, true
}

func armOf(p Pair) []Sample       { return p.Arm }
func referenceOf(p Pair) []Sample { return p.Reference }

// ranked is one latency with the repetition and the block that it came from.
type ranked struct {
	latency           time.Duration
	repetition, block int
}

// pooled holds all samples of one arm, the slowest first: a weighted tail quantile is then a short walk, and resampling
// never sorts.
type pooled struct {
	ranked []ranked
	blocks int
	// sizes counts the samples of each block of each repetition.
	sizes map[[2]int]int
}

func pool(pairs []Pair, side func(Pair) []Sample) pooled {
	p := pooled{sizes: map[[2]int]int{}}
	for repetition, pair := range pairs {
		for _, s := range side(pair) {
			b := int(s.Intended / block)
			p.blocks = max(p.blocks, b+1)
			p.sizes[[2]int{repetition, b}]++
			p.ranked = append(p.ranked, ranked{s.Latency, repetition, b})
		}
	}
	slices.SortFunc(p.ranked, func(a, b ranked) int { return cmp.Compare(b.latency, a.latency) })
	return p
}

// quantile returns the nearest-rank quantile. Every sample counts as often as its block was drawn.
func (p pooled) quantile(q float64, w weights) time.Duration {
	total := 0
	for at, n := range p.sizes {
		total += n * w[at[0]][at[1]]
	}
	above := int(float64(total)*(1-q) + 1e-6)
	seen := 0
	for _, r := range p.ranked {
		if seen += w[r.repetition][r.block]; seen > above {
			return r.latency
		}
	}
	return 0
}

// weights counts how often each block of each repetition was drawn.
type weights [][]int

func newWeights(repetitions, blocks int) weights {
	w := make(weights, repetitions)
	for i := range w {
		w[i] = make([]int, blocks)
	}
	return w
}

func (w weights) fill(n int) {
	for _, repetition := range w {
		for i := range repetition {
			repetition[i] = n
		}
	}
}

func (w weights) draw(random *rand.Rand, pairs []Pair) {
	w.fill(0)
	for range pairs {
		repetition := w[random.IntN(len(w))]
		for range repetition {
			repetition[random.IntN(len(repetition))]++
		}
	}
}

// interval cuts 2.5 % off either end of ratios, which must be ascending and not empty.
func interval(ratios []float64) (low, high float64) {
	return ratios[len(ratios)*25/1000], ratios[min(len(ratios)*975/1000, len(ratios)-1)]
}
