package kernel

import (
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// OnThread runs f on a thread of this process that ends with f, and returns when f has returned. No other goroutine
// ever runs on that thread, so f may change the thread's attributes. The Go runtime makes no new thread from a locked
// thread.
func OnThread(f func()) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		runtime.LockOSThread()
		if unix.Gettid() == os.Getpid() { // the first thread does not end before the process
			defer runtime.UnlockOSThread()
			OnThread(f)
			return
		}
		f()
	}()
	<-ended
}
