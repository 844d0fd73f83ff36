package smoke

import (
	"os"
	"testing"
)

// spinner is the environment variable that turns the test binary into a spinning process.
const spinner = "BERTH_TEST_SPIN"

// TestMain spins instead of testing when a test of this package started it for that.
func TestMain(m *testing.M) {
	if os.Getenv(spinner) != "" {
		for { //nolint:revive // Burning CPU is the purpose; the test kills it.
		}
	}
	os.Exit(m.Run())
}
