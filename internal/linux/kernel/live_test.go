package kernel

import (
	"errors"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-project/berth/internal/linux/hostfs"
)

// TestLive asks the running kernel.
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

// TestRoundRobin checks that the slice of SCHED_RR is the file's value in whole ticks, and that the asking thread is
// unchanged afterwards.
func TestRoundRobin(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("a real-time policy needs root; runs in the VM: make test")
	}
	text, err := os.ReadFile("/proc/sys/kernel/sched_rr_timeslice_ms")
	if err != nil {
		t.Fatal(err)
	}
	ms, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	got, err := RoundRobin()
	if errors.Is(err, unix.EPERM) {
		t.Skip("the group of this program has no budget for real-time threads; runs in the VM: make vm")
	}
	if want := time.Duration(ms) * time.Millisecond; err != nil || got < want || got >= want+Tick() {
		t.Errorf("%v, %v, want %v to the next tick", got, err, want)
	}
	if after, err := unix.SchedGetAttr(0, 0); err != nil || after.Policy != unix.SCHED_NORMAL {
		t.Errorf("the thread has policy %d, %v", after.Policy, err)
	}
}
