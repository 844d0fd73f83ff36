package smoke

import (
	"os"
	"testing"
	"time"
)

// spinner is the environment variable that turns the test binary into a spinning process.
const spinner = "BERTH_TEST_SPIN"

// TestMain spins instead of testing when a test of this package started it for that.
func TestMain(m *testing.M) {
	if os.Getenv(spinner) != "" {
		spin()
	}
	os.Exit(m.Run())
}

// spin burns CPU for longer than any test lasts, should nobody kill it.
func spin() {
	end := time.Now().Add(time.Minute)
	for time.Now().Before(end) {
		continue
	}
}
