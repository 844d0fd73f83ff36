package cli_test

import (
	"os"
	"strings"
	"testing"
)

// TestRunItAsRoot: after a permission error, an ordinary user is told to use root, but root is not. No user can create
// a file in sysfs.
func TestRunItAsRoot(t *testing.T) {
	_, _, errs := berthRun(t, "doctor", "--interval", "100ms", "--bundle", "/sys/kernel/bundle.txtar")
	if !strings.Contains(errs, "permission denied") || strings.Contains(errs, "(run it as root)") != (os.Geteuid() != 0) {
		t.Errorf("as user %d: %s", os.Geteuid(), errs)
	}
}
