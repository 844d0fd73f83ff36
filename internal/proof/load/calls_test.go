package load

import (
	"errors"
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
	times, err := TimeCalls(2, 2)
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
	for _, bad := range [][2]int{{0, 1}, {1, 0}} {
		if times, err := TimeCalls(bad[0], bad[1]); !errors.Is(err, ErrBadLoad) {
			t.Errorf("threads and runs %v: %v, %v", bad, times, err)
		}
	}
}

// TestCallsTogether checks that every thread makes its call, and that the longest of them counts.
func TestCallsTogether(t *testing.T) {
	var all []*calls
	for range 3 {
		c, err := openCalls(AllCalls)
		if err != nil {
			t.Fatal(err)
		}
		defer c.close()
		all = append(all, c)
	}
	longest, err := together(all, RandomCalls)
	if err != nil {
		t.Fatal(err)
	}
	var most time.Duration
	for i, c := range all {
		if c.longest <= 0 {
			t.Errorf("thread %d made no call", i)
		}
		most = max(most, c.longest)
	}
	if longest != most {
		t.Errorf("%s, the longest of the threads is %s", longest, most)
	}
}
