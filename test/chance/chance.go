// Package chance fixes the random numbers of tests, so that two runs of the same commit draw the same cases. A test
// package imports it to fix the cases of its rapid properties, and calls Seed for its random histories.
//
// BERTH_SEED=random, which the verify targets set, draws new cases. A number repeats the cases of a failure. The flag
// -rapid.seed takes precedence over BERTH_SEED.
package chance

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strconv"
	"time"

	_ "pgregory.net/rapid" // Defines its flags before this package sets one.
)

// usual is the seed when BERTH_SEED is not set.
const usual = 1

var seed uint64

func init() { //nolint:gochecknoinits // the flag of another package, set before the first test
	var err error
	if seed, err = parse(os.Getenv("BERTH_SEED"), time.Now()); err == nil {
		err = flag.Set("rapid.seed", strconv.FormatUint(seed, 10))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "seed of the tests:", err)
		os.Exit(2)
	}
}

// Seed returns the seed of this process. A test logs the seed together with the drawn values.
func Seed() uint64 { return seed }

// errSeed reports that the value of BERTH_SEED is not valid.
var errSeed = errors.New("want random, or a number from 1 on")

func parse(text string, now time.Time) (uint64, error) {
	switch text {
	case "":
		return usual, nil
	case "random":
		return uint64(now.UnixNano()), nil
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil || n == 0 {
		return 0, fmt.Errorf("BERTH_SEED=%q: %w", text, errSeed)
	}
	return n, nil
}
