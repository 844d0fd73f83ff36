package load

import (
	"runtime"
	"testing"

	"github.com/berth-project/berth/internal/linux/kernel"
)

// TestCalls checks that each kind of call costs a thread CPU time, and leaves nothing open.
func TestCalls(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	c, err := openCalls()
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	for name, call := range map[string]func() error{"numbers": c.numbers, "splice": c.splice, "faults": c.faults, "futexes": c.futexes, "next": c.next} {
		before, err := kernel.ThreadCPUTime()
		if err != nil {
			t.Fatal(err)
		}
		if err := call(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if after, err := kernel.ThreadCPUTime(); err != nil || after <= before {
			t.Errorf("%s: %s of CPU, %v", name, after-before, err)
		}
	}
}
