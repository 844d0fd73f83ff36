package evidence

// jitter is the greatest relative difference of a block from the agreed length.
const jitter = 0.2

// Schedule reports for a pair (0, 1, …) whether its first block has the change. It also returns the length of both
// blocks relative to the agreed length, 0.8 to 1.2, so that they do not align with a cron job. The same seed gives the
// same results, so a trial that continues after a crash tosses no coin twice.
func Schedule(seed uint64, pair int) (changeFirst bool, stretch float64) {
	coin := mix(mix(seed) + uint64(pair))
	const denominator = 1 << 53
	return coin&1 == 1, 1 - jitter + 2*jitter*float64(mix(coin)>>11)/denominator
}

// mix is a step of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
