package cli_test

import (
	"os"
	"strings"
	"testing"
)

// TestRunItAsRoot: whom the kernel refuses a file is sent to root, unless that is who it refused: sysfs
// lets no user make a file.
func TestRunItAsRoot(t *testing.T) {
	_, _, errs := berthRun(t, "doctor", "--interval", "100ms", "--bundle", "/sys/kernel/bundle.txtar")
	if !strings.Contains(errs, "permission denied") || strings.Contains(errs, "(run it as root)") != (os.Geteuid() != 0) {
		t.Errorf("as user %d: %s", os.Geteuid(), errs)
	}
}
