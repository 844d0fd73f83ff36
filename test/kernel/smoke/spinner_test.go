package smoke

import (
	"os"
	"testing"
	"time"
)

// spinner is the environment variable that turns the test binary into a spinning process.
const spinner = "BERTH_TEST_SPIN"

// TestMain spins instead of testing if a test of this package started the binary for that.
func TestMain(m *testing.M) {
	if os.Getenv(spinner) != "" {
		spin()
	}
	os.Exit(m.Run())
}

// spin burns CPU for longer than any test lasts, in case nobody kills it.
func spin() {
	end := time.Now().Add(time.Minute)
	for time.Now().Before(end) {
		continue
	}
}
