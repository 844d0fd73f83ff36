package process_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/berth-project/berth/internal/linux/process"
)

const (
	// preferredFlag makes TestPreferredChild do its work.
	preferredFlag = "BERTH_TEST_PROCESS_PREFERRED"
	// ordinaryFlag is the argument that makes TestOrdinaryChild do its work, because a program inherits no variable.
	ordinaryFlag = "berth-test-ordinary"
	// preferred is a nice value with a higher priority than the default.
	preferred = -5
)

// TestLiveRunIsOrdinary checks that a program runs with ordinary priority, even if its parent has a higher priority and
// is never killed for memory. The process that keeps a host profile's deadline is such a parent.
func TestLiveRunIsOrdinary(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("a higher priority needs root; runs in the VM: make test")
	}
	realTime := mayRealTime()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestPreferredChild$")
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%v", preferredFlag, realTime))
	out, err := onPreferredThread(cmd, realTime)
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// onPreferredThread runs a command from a thread with a higher priority, which the process inherits.
func onPreferredThread(cmd *exec.Cmd, realTime bool) (out []byte, err error) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		attr := unix.SchedAttr{Size: unix.SizeofSchedAttr, Nice: preferred}
		if realTime {
			attr.Policy, attr.Priority = process.RoundRobin, process.Highest
		}
		if err = unix.SchedSetAttr(0, &attr, 0); err == nil {
			out, err = cmd.CombinedOutput()
		}
	}()
	<-ended
	return out, err
}

// TestPreferredChild has a higher priority, is never killed for memory, and runs a program.
func TestPreferredChild(t *testing.T) {
	realTime := os.Getenv(preferredFlag)
	if realTime == "" {
		return
	}
	if err := os.WriteFile("/proc/self/oom_score_adj", []byte("-1000"), 0); err != nil && !errors.Is(err, unix.EACCES) { // without CAP_SYS_RESOURCE
		t.Fatal(err)
	}
	if attr, err := unix.SchedGetAttr(0, 0); err != nil || attr.Policy == process.RoundRobin != (realTime == "true") || realTime != "true" && attr.Nice != preferred {
		t.Fatalf("%+v, %v", attr, err)
	}
	for range 3 { // the threads of this process may have become ordinary
		if err := process.Run(t.Context(), os.Args[0], "-test.run=^TestOrdinaryChild$", ordinaryFlag); err != nil {
			t.Error(err)
		}
		if err := everyThread(func(attr *unix.SchedAttr) bool { return attr.Policy == process.RoundRobin || attr.Nice == preferred }); err != nil {
			t.Error(err)
		}
	}
}

// everyThread reports a thread of this process for which ok returns false.
func everyThread(ok func(*unix.SchedAttr) bool) error {
	tasks, err := os.ReadDir("/proc/self/task")
	for _, task := range tasks {
		var tid int
		if _, err := fmt.Sscan(task.Name(), &tid); err != nil {
			return err
		}
		attr, err := unix.SchedGetAttr(tid, 0)
		if errors.Is(err, unix.ESRCH) {
			continue
		}
		if err != nil || !ok(attr) {
			return fmt.Errorf("thread %d has %+v: %w", tid, attr, errors.Join(err, errOther))
		}
	}
	return err
}

var errOther = errors.New("another policy or nice value")

// TestOrdinaryChild is a program.
func TestOrdinaryChild(t *testing.T) {
	if !slices.Contains(os.Args, ordinaryFlag) {
		return
	}
	if err := everyThread(func(attr *unix.SchedAttr) bool { return attr.Policy == unix.SCHED_NORMAL && attr.Nice == 0 }); err != nil {
		t.Error(err)
	}
	// The parent of this process writes that right afterwards.
	for range 1000 {
		if score, err := os.ReadFile("/proc/self/oom_score_adj"); err != nil || !strings.HasPrefix(string(score), "-") {
			return
		}
		unix.Nanosleep(&unix.Timespec{Nsec: 1e6}, nil)
	}
	t.Error("it is never killed for memory")
}
