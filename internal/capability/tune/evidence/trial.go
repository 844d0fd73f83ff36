package evidence

import (
	"fmt"
	"math"
	"slices"
)

// Rule determines when a trial ends. It is fixed before the first pair.
type Rule struct {
	// Candidates is how many changes are tried, including this change: 1 or more.
	Candidates int
	// HigherIsBetter is true for a rate, false for a time.
	HigherIsBetter bool
	// Alpha is the greatest probability of "better" for a change that does nothing, over all candidates. Harm is the
	// same for "worse" and "noDifference".
	Alpha, Harm float64
	// Delta is the smallest gain that matters, as a fraction: 0.05 is 5 %.
	Delta float64
	// Least is the number of pairs required for "better"; Most pairs end the trial.
	Least, Most int
}

// Standard returns the rule for one change, for a value that is better if it is lower.
func Standard() Rule {
	return Rule{Candidates: 1, Alpha: 0.01, Harm: 0.05, Delta: 0.05, Least: 8, Most: 60}
}

func (r Rule) check() error {
	share := func(x float64) bool { return x > 0 && x < 1 }
	if r.Candidates < 1 || !share(r.Alpha) || !share(r.Harm) || !share(r.Delta) || r.Least < 1 || r.Most < r.Least {
		return fmt.Errorf("rule %+v: %w", r, ErrValue)
	}
	return nil
}

// Pair has the measurements of two adjacent blocks, both above 0. A caller whose fraction or count may be 0 adds 0.5 to
// both.
type Pair struct {
	With    float64 `json:"with"`
	Without float64 `json:"without"`
}

// Verdict is the judgment of a trial on the change.
type Verdict string

// The verdicts. Undecided means that the trial continues.
const (
	Undecided    Verdict = ""
	Better       Verdict = "better"
	Worse        Verdict = "worse"
	NoDifference Verdict = "noDifference"
	Noisy        Verdict = "noisy"
)

// Result is the state of a trial after some pairs.
type Result struct {
	Verdict Verdict `json:"verdict"`
	Pairs   int     `json:"pairs"`
	// Ratio is with over without: the exponential of the median of the means of every two logarithms (see centre). Low
	// and High are the ends of the interval; both are 0 while too few pairs bound it.
	Ratio float64 `json:"ratio"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
	// Gain and Harm are the values of the two processes at no effect.
	Gain float64 `json:"gain"`
	Harm float64 `json:"harm"`
}

// Trial collects pairs. One goroutine at a time may use it.
type Trial struct {
	rule Rule
	d    []float64 // ln(with/without), negative is better
}

// New begins a trial. It returns ErrValue if the rule is out of its range.
func New(rule Rule) (*Trial, error) {
	if err := rule.check(); err != nil {
		return nil, err
	}
	return &Trial{rule: rule}, nil
}

// Add adds the next pair. It returns ErrValue if a value is not above 0 and finite.
func (t *Trial) Add(p Pair) error {
	d := math.Log(p.With / p.Without)
	if !(p.With > 0 && p.Without > 0) || math.IsInf(d, 0) || math.IsNaN(d) {
		return fmt.Errorf("pair %d, with %v, without %v: %w", len(t.d), p.With, p.Without, ErrValue)
	}
	t.d = append(t.d, d*t.sign())
	return nil
}

// sign returns the factor that makes negative differences better.
func (t *Trial) sign() float64 {
	if t.rule.HigherIsBetter {
		return -1
	}
	return 1
}

// Verdict returns the verdict so far. The caller may ask once or after every pair; the first verdict other than
// Undecided is valid.
func (t *Trial) Verdict() Verdict {
	n := len(t.d)
	gain, harm := processes(t.d, 0)
	little := math.Log(1 - t.rule.Delta)
	_, small := processes(t.d, little)
	switch enough := 1 / t.rule.Harm; {
	case harm >= enough:
		return Worse
	case gain >= float64(t.rule.Candidates)/t.rule.Alpha && n >= t.rule.Least:
		return Better
	case small >= enough && centre(t.d) < -little: // beyond that the trial approaches Worse
		return NoDifference
	case n >= t.rule.Most:
		return Noisy
	}
	return Undecided
}

// Result returns the state of the trial.
func (t *Trial) Result() Result {
	r := Result{Verdict: t.Verdict(), Pairs: len(t.d)}
	r.Gain, r.Harm = processes(t.d, 0)
	if r.Pairs == 0 {
		return r
	}
	low, high := interval(t.d, 1/t.rule.Harm)
	if t.rule.HigherIsBetter {
		low, high = -high, -low
	}
	r.Ratio = math.Exp(t.sign() * centre(t.d))
	if !math.IsInf(low, 0) && !math.IsInf(high, 0) {
		r.Low, r.High = math.Exp(low), math.Exp(high)
	}
	return r
}

// processes returns E_n(theta) and its mirror image.
func processes(d []float64, theta float64) (below, above float64) {
	bets := [...]float64{0.25, 0.5, 0.95}
	var gains, harms [len(bets)]float64
	for k := range bets {
		gains[k], harms[k] = 1, 1
	}
	sorted := make([]float64, 0, len(d))
	for _, x := range d {
		m := math.Abs(x - theta)
		at, _ := slices.BinarySearch(sorted, m)
		sorted = slices.Insert(sorted, at, m)
		if m == 0 {
			continue // neither side of theta: no bet
		}
		step := min(1, m/upperQuartile(sorted))
		if x > theta {
			step = -step
		}
		for k, c := range bets {
			gains[k] *= 1 + c*step
			harms[k] *= 1 - c*step
		}
	}
	for k := range bets {
		below += gains[k] / float64(len(bets))
		above += harms[k] / float64(len(bets))
	}
	return below, above
}

// upperQuartile returns the smallest value with three quarters of all values at or below it. It is above 0 whenever
// the largest value is: if the quartile is 0, the largest value replaces it.
func upperQuartile(sorted []float64) float64 {
	q := sorted[(3*len(sorted)+3)/4-1]
	if q == 0 {
		return sorted[len(sorted)-1]
	}
	return q
}

// interval returns the ends of the set of theta for which the mean of both processes is below limit. An unbounded end
// is infinite.
func interval(d []float64, limit float64) (low, high float64) {
	inside := func(theta float64) bool {
		below, above := processes(d, theta)
		return (below+above)/2 < limit
	}
	middle := centre(d)
	width := slices.Max(d) - slices.Min(d) + 1e-9
	end := func(direction float64) float64 {
		far := middle + direction*2*width // here all differences are on one side of theta
		if inside(far) {
			return direction * math.Inf(1)
		}
		// The set may have gaps. The grid finds its outermost point, which bisection then refines.
		const steps, halvings = 200, 40
		near := middle
		for i := range steps {
			at := far + (middle-far)*float64(i+1)/steps
			if inside(at) {
				near = at
				break
			}
			far = at
		}
		for range halvings {
			if at := (near + far) / 2; inside(at) {
				near = at
			} else {
				far = at
			}
		}
		return far
	}
	return end(-1), end(1)
}

// centre returns the median of the means of every two differences, each difference also paired with itself (Hodges and
// Lehmann).
func centre(d []float64) float64 {
	var means []float64
	for i := range d {
		for _, y := range d[i:] {
			means = append(means, (d[i]+y)/2)
		}
	}
	slices.Sort(means)
	n := len(means)
	return (means[(n-1)/2] + means[n/2]) / 2
}
