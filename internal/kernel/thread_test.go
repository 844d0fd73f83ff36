package kernel

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
	"testing"
)

// A thread is known by its id and its start, and its affinity is never empty.
func TestThread(t *testing.T) {
	pid := os.Getpid()
	cpus, err := ThreadAffinity(pid)
	if err != nil || cpus.IsEmpty() {
		t.Errorf("CPUs %s, %v", cpus, err)
	}
	first, err := ThreadStart(pid)
	if err != nil || first == 0 {
		t.Errorf("start %d, %v", first, err)
	}
	if again, err := ThreadStart(pid); err != nil || again != first {
		t.Errorf("start %d, then %d, %v", first, again, err)
	}
	const none = 1 << 30 // above every limit of ids
	if _, err := ThreadAffinity(none); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("the affinity of no thread: %v", err)
	}
	if _, err := ThreadStart(none); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the start of no thread: %v", err)
	}
}
