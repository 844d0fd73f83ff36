package kernel

import (
	"testing"
	"time"

	"github.com/berth-project/berth/internal/hostfs"
)

// TestLive asks the kernel that runs the tests.
func TestLive(t *testing.T) {
	root, err := hostfs.Open("/")
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()

	id, err := BootID(root)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := BootID(root); err != nil || again != id {
		t.Errorf("boot id %q, then %q, %v", id, again, err)
	}
	if slice, err := BandwidthSlice(root); err != nil || slice <= 0 {
		t.Errorf("bandwidth slice %d, %v", slice, err)
	}
	if tick := Tick(); tick < time.Second/10_000 || tick > slowestTick {
		t.Errorf("tick %v", tick)
	}
	one, two := Monotonic(), Monotonic()
	if one <= 0 || two < one {
		t.Errorf("clock %v, then %v", one, two)
	}
	busy, err := CPUBusy(root)
	if err != nil || busy <= 0 {
		t.Errorf("busy %d, %v", busy, err)
	}
	if later, err := CPUBusy(root); err != nil || later < busy {
		t.Errorf("busy %d, then %d, %v", busy, later, err)
	}
}
