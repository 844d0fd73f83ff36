// Package chance fixes what tests draw at random, so that two runs of one commit draw the same. A
// test package imports it to fix the cases of its properties (rapid), and calls Seed for its
// histories.
//
// BERTH_SEED=random, which the verify targets set, draws new cases; a number repeats those of a
// failure. The flag -rapid.seed counts before it.
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

// usual is the seed where BERTH_SEED is not set.
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

// Seed returns the seed of this process. A test logs it with what it draws.
func Seed() uint64 { return seed }

// errSeed says that BERTH_SEED has none of the values that it may have.
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
