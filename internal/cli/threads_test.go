package cli

import (
	"runtime"
	"testing"
)

// TestThreads: the agent must not use more CPUs on a large node than on a small one.
func TestThreads(t *testing.T) {
	before := runtime.GOMAXPROCS(20)
	defer runtime.GOMAXPROCS(before)
	if got := threads(true); got != 2 {
		t.Errorf("in a cluster, of 20 CPUs: %d threads at once, want 2", got)
	}
	if got := threads(false); got != 1 {
		t.Errorf("without a cluster: %d threads at once, want 1", got)
	}
	runtime.GOMAXPROCS(1)
	if got := threads(true); got != 1 {
		t.Errorf("in a cluster, of 1 CPU: %d threads at once, want 1", got)
	}
}
