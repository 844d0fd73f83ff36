package load

import (
	"context"
	"fmt"
	"math"
	"math/big"
	"runtime"
	"sync"
	"time"
)

// Limits of a computation of Pi.
const (
	MaxDigits  = 1_000_000
	MaxThreads = 9_000 // Go's runtime ends a program with more than 10,000
)

// guardDigits absorb the rounding errors of the terms.
const guardDigits = 10

// LetRun sets GOMAXPROCS so that the kernel sees this many threads ready to run at once, at most 256: Go's collector needs
// some work for each. By itself Go's runtime lets as few run as the group's quota has CPUs.
func LetRun(threads int) { runtime.GOMAXPROCS(min(threads, 256)) }

// TimePi computes Pi again and again with a number of digits on a number of threads of the operating system, until the
// duration has passed, at least once. It returns the mean time of a computation. The error is ErrTooMuch. TimePi calls
// LetRun, so it needs a process of its own.
func TimePi(ctx context.Context, digits, threads int, d time.Duration) (time.Duration, error) {
	if digits < 1 || digits > MaxDigits || threads < 1 || threads > MaxThreads {
		return 0, fmt.Errorf("pi with %d digits on %d threads: %w", digits, threads, ErrTooMuch)
	}
	LetRun(threads)
	start := time.Now()
	for n := 1; ; n++ {
		Pi(digits, threads)
		took := time.Since(start)
		if err := ctx.Err(); err != nil {
			return 0, fmt.Errorf("pi: %w", err)
		}
		if took >= d {
			return took / time.Duration(n), nil
		}
	}
}

// Pi returns Pi with a number of digits after the point, by Machin's formula 16 arctan(1/5) - 4 arctan(1/239). The
// threads share the terms of both series, one series after the other. Each is a thread of the operating system of its
// own, so that the kernel and not Go's runtime decides which runs.
func Pi(digits, threads int) string {
	one := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(digits+guardDigits)), nil)
	sum := new(big.Int)
	for _, series := range []struct{ factor, x int64 }{{16, 5}, {-4, 239}} {
		part := arctan(one, series.x, threads)
		sum.Add(sum, part.Mul(part, big.NewInt(series.factor)))
	}
	text := sum.String()
	return text[:1] + "." + text[1:digits+1]
}

// arctan returns arctan(1/x) in units of 1/one.
func arctan(one *big.Int, x int64, threads int) *big.Int {
	terms := int(float64(len(one.String()))/(2*math.Log10(float64(x)))) + 1
	sum := new(big.Int)
	var mu sync.Mutex
	var wait sync.WaitGroup
	for t := range threads {
		wait.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			part := someTerms(one, x, t*terms/threads, (t+1)*terms/threads)
			mu.Lock()
			defer mu.Unlock()
			sum.Add(sum, part)
		})
	}
	wait.Wait()
	return sum
}

// someTerms sums the terms first..last-1 of the series of arctan(1/x), in units of 1/one.
func someTerms(one *big.Int, x int64, first, last int) *big.Int {
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
