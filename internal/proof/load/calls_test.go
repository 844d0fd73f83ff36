package load

import (
	"runtime"
	"testing"
	"time"

	"github.com/berth-project/berth/internal/linux/kernel"
)

// TestCalls checks that each kind of call costs a thread CPU time by itself.
func TestCalls(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for _, kind := range append(CallKinds(), AllCalls) {
		c, err := openCalls(kind)
		if err != nil {
			t.Fatal(err)
		}
		for range c.kinds {
			before, err := kernel.ThreadCPUTime()
			if err != nil {
				t.Fatal(err)
			}
			if err := c.next(); err != nil {
				t.Errorf("%s: %v", kind, err)
			}
			if after, err := kernel.ThreadCPUTime(); err != nil || after <= before {
				t.Errorf("%s: %s of CPU, %v", kind, after-before, err)
			}
		}
		c.close()
	}
}

// TestTimeCalls: a call of 32 MiB of random numbers is the work of the kernel for milliseconds on any machine, and a
// futex call is not.
func TestTimeCalls(t *testing.T) {
	times, err := TimeCalls()
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range CallKinds() {
		if times[kind] <= 0 {
			t.Errorf("%s: %v s", kind, times[kind])
		}
	}
	random := times.Longest(RandomCalls)
	if random < time.Millisecond || times.Longest(FutexCalls) >= random || times.Longest(AllCalls) < random || times.Longest(NoCalls) != 0 {
		t.Errorf("%v", times)
	}
}
