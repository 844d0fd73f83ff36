package kernel

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestThread checks that a thread is identified by its id and start time, and that its affinity is never empty.
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

// TestThreadEnds checks that the first thread of an ended process that nobody has waited for counts as ending.
func TestThreadEnds(t *testing.T) {
	child, err := os.StartProcess("/proc/self/exe", []string{"child", "-test.run=^$"}, &os.ProcAttr{})
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Waitid(unix.P_PID, child.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
		t.Fatal(err)
	}
	if !ThreadEnds(child.Pid) {
		t.Errorf("thread %d has ended", child.Pid)
	}
	if _, err := child.Wait(); err != nil {
		t.Error(err)
	}
	if ThreadEnds(child.Pid) {
		t.Errorf("thread %d is gone", child.Pid)
	}
	if ThreadEnds(os.Getpid()) {
		t.Error("this process goes on")
	}
}

// TestThreadStat checks that the state of a thread is read from a file for which the kernel examines only that thread:
// a leader, another thread, and an ended thread.
func TestThreadStat(t *testing.T) {
	if got, want := ThreadStat("7"), "/proc/7/task/7/stat"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	leader, err := ThreadStart(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	var other int
	var start uint64
	OnThread(func() {
		other = unix.Gettid()
		start, err = ThreadStart(other)
	})
	if err != nil || start < leader || other == os.Getpid() {
		t.Errorf("thread %d started at %d, %v; its process at %d", other, start, err, leader)
	}
	for ; err == nil; time.Sleep(time.Millisecond) {
		_, err = ThreadStart(other)
	}
	if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ESRCH) {
		t.Errorf("the start of a thread that ended: %v", err)
	}
}
