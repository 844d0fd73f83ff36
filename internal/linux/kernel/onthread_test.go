package kernel

import (
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestOnThread checks that each call has its own thread, which is not the first thread of the process and is gone
// afterwards.
func TestOnThread(t *testing.T) {
	t.Parallel()
	const calls = 16
	var all sync.WaitGroup
	var at sync.Mutex
	var tids []int
	together := make(chan struct{})
	for range calls {
		all.Go(func() {
			OnThread(func() {
				at.Lock()
				if tids = append(tids, unix.Gettid()); len(tids) == calls {
					close(together)
				}
				at.Unlock()
				<-together
			})
		})
	}
	all.Wait()
	slices.Sort(tids)
	if len(slices.Compact(slices.Clone(tids))) != calls || slices.Contains(tids, os.Getpid()) {
		t.Errorf("threads %v of process %d, want %d others", tids, os.Getpid(), calls)
	}
	for _, tid := range tids {
		for there(tid) {
			time.Sleep(time.Millisecond)
		}
	}
}

// there reports whether this process has a thread.
func there(tid int) bool {
	_, err := os.Stat(fmt.Sprintf("/proc/self/task/%d", tid))
	return err == nil
}
