package main

import (
	"math"
	"math/big"
	"sync"
)

// guard is the number of extra digits that absorb the rounding errors of the terms.
const guard = 10

// compute returns Pi with a number of digits after the point, by Machin's formula
// 16 arctan(1/5) - 4 arctan(1/239). The threads share the terms of both series.
func compute(digits, threads int) string {
	one := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(digits+guard)), nil)
	sum := new(big.Int)
	var mu sync.Mutex
	var wait sync.WaitGroup
	for _, series := range []struct{ factor, x int64 }{{16, 5}, {-4, 239}} {
		terms := int(float64(digits+guard)/(2*math.Log10(float64(series.x)))) + 1
		for t := range threads {
			first, last := t*terms/threads, (t+1)*terms/threads
			wait.Go(func() {
				part := arctan(one, series.x, first, last)
				part.Mul(part, big.NewInt(series.factor))
				mu.Lock()
				defer mu.Unlock()
				sum.Add(sum, part)
			})
		}
	}
	wait.Wait()
	text := sum.String()
	return text[:1] + "." + text[1:digits+1]
}

// arctan sums the terms first..last-1 of the series of arctan(1/x), in units of 1/one.
func arctan(one *big.Int, x int64, first, last int) *big.Int {
	sum := new(big.Int)
	if first == last {
		return sum
	}
	square := big.NewInt(x * x)
	power := new(big.Int).Exp(big.NewInt(x), big.NewInt(int64(2*first+1)), nil)
	power.Quo(one, power)
	term, divisor := new(big.Int), new(big.Int)
	for k := first; k < last; k++ {
		term.Quo(power, divisor.SetInt64(int64(2*k+1)))
		if k%2 == 0 {
			sum.Add(sum, term)
		} else {
			sum.Sub(sum, term)
		}
		power.Quo(power, square)
	}
	return sum
}
