package kernel

import (
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// OnThread runs f on a thread of this process that ends with f, and returns when f has: no other
// goroutine ever has what f changed of its thread. The Go runtime makes no thread from one that is
// locked.
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
