package bench

import (
	"testing"
	"testing/fstest"
)

// TestSwitchesOfAllThreads checks that both kinds of switches of each thread count, and that an ended thread does not
// fail.
func TestSwitchesOfAllThreads(t *testing.T) {
	status := func(voluntary, other string) *fstest.MapFile {
		return &fstest.MapFile{Data: []byte("Name:\tx\nvoluntary_ctxt_switches:\t" + voluntary + "\nnonvoluntary_ctxt_switches:\t" + other + "\n")}
	}
	files := fstest.MapFS{
		"proc/7/task/7/status":    status("100", "20"),
		"proc/7/task/8/status":    status("3", "0"),
		"proc/7/task/9/schedstat": {Data: []byte("ended")},
		"proc/8/task/8/status":    status("5000", "5000"),
	}
	if n, err := switches(files, 7); err != nil || n != 123 {
		t.Errorf("%d switches, %v, want 123", n, err)
	}
	if n, err := switches(files, 6); err == nil {
		t.Errorf("no such process: %d switches", n)
	}
}
