package load

import "math"

// Share is one count of one repetition and its whole: pods of all pods, or pods in so many seconds. A plain count has
// Whole 1.
type Share struct {
	Part, Whole float64
}

// PairedShares compares two arms by the shares of paired repetitions, which had the same arrivals. The estimate is the
// sum of the arm's parts over the sum of its wholes, divided by the same quotient of the reference. The 95 % interval
// is Student's t of the logarithm of that ratio. Its spread comes from the first-order effect of each pair on the
// logarithm, so that a pair in which an arm has nothing counts too. Few repetitions make it wide instead of wrong:
// resampling three repetitions can reach no further than their extremes.
//
// ok is false, and the ratio zero, with fewer than two repetitions, when the two lists differ in length, or when a
// whole or the reference's share is 0.
func PairedShares(arm, reference []Share) (ratio Ratio, ok bool) {
	if len(arm) < 2 || len(arm) != len(reference) {
		return Ratio{}, false
	}
	a, r := sum(arm), sum(reference)
	if a.Whole <= 0 || r.Whole <= 0 || r.Part <= 0 {
		return Ratio{}, false
	}
	if a.Part == 0 {
		return Ratio{}, true // The arm counted nothing: there is no logarithm.
	}
	n := float64(len(arm))
	squares := 0.0
	for i := range arm {
		// The mean over the pairs is 0.
		effect := n * (arm[i].Part/a.Part - arm[i].Whole/a.Whole - reference[i].Part/r.Part + reference[i].Whole/r.Whole)
		squares += effect * effect
	}
	width := math.Exp(student(len(arm)-1) * math.Sqrt(squares/(n-1)/n))
	ratio.Estimate = a.Part / a.Whole / (r.Part / r.Whole)
	ratio.Low, ratio.High = ratio.Estimate/width, ratio.Estimate*width
	return ratio, true
}

func sum(shares []Share) (all Share) {
	for _, s := range shares {
		all.Part, all.Whole = all.Part+s.Part, all.Whole+s.Whole
	}
	return all
}

// student returns the 97.5 % quantile of Student's t with n degrees of freedom, at least 1. It uses a table up to 9,
// then the expansion of Cornish and Fisher, which is correct to four digits there.
func student(n int) float64 {
	table := [...]float64{12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622}
	if n <= len(table) {
		return table[n-1]
	}
	const normal = 1.959964
	z, d := normal, float64(n)
	z3 := z * z * z
	z5 := z3 * z * z
	z7 := z5 * z * z
	return z + (z3+z)/(4*d) + (5*z5+16*z3+3*z)/(96*d*d) + (3*z7+19*z5+17*z3-15*z)/(384*d*d*d)
}
