package process_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-project/berth/internal/linux/process"
	"github.com/berth-project/berth/test/patience"
)

// detachFlag is the action of a child: "detach" another child, or be that child. detachDir is the directory for its
// process id, and for its completion in the end.
const (
	detachFlag = "BERTH_TEST_PROCESS_DETACH"
	detachDir  = "BERTH_TEST_PROCESS_DIR"
)

// allocations cause many rounds of garbage collection.
const allocations = 2_000

// TestDetachChild is a child.
func TestDetachChild(t *testing.T) {
	switch os.Getenv(detachFlag) {
	case "detach":
		t.Setenv(detachFlag, "allocate")
		if err := process.Detach([]string{os.Args[0], "-test.run=^TestDetachChild$"}); err != nil {
			t.Fatal(err)
		}
	case "allocate":
		if err := allocate(os.Getenv(detachDir)); err != nil {
			t.Fatal(err)
		}
	}
}

// allocate makes several threads allocate, and wait for the garbage collector.
func allocate(dir string) error {
	err := os.WriteFile(filepath.Join(dir, "pid"), []byte(strconv.Itoa(os.Getpid())), 0o600)
	runtime.GOMAXPROCS(4)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			var kept [][]*int
			for n := range allocations {
				if kept = append(kept, append(make([]*int, 0, 1024), new(n))); len(kept) == 64 {
					kept = nil
				}
			}
		})
	}
	all.Wait()
	attr, attrErr := unix.SchedGetAttr(0, 0)
	if err := errors.Join(err, attrErr); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "done"), fmt.Append(nil, attr.Policy, attr.Priority), 0o600)
}

// TestLiveDetachedThreadsTakeTurns checks that a detached process with only one CPU makes progress. Its threads, all of
// the highest priority, must take turns even if one waits for another without a system call.
func TestLiveDetachedThreadsTakeTurns(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("real-time policies need root; runs in the VM: make test")
	}
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestDetachChild$")
	cmd.Env = append(os.Environ(), detachFlag+"=detach", detachDir+"="+dir)
	if out, err := onOneCPU(cmd); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Cleanup(func() {
		text, err := os.ReadFile(filepath.Join(dir, "pid"))
		if pid, notANumber := strconv.Atoi(string(text)); errors.Join(err, notANumber) == nil {
			_ = unix.Kill(pid, unix.SIGKILL) // it has ended, unless the test fails
		}
	})
	if err := patience.Until(t.Context(), 10*time.Millisecond, func() string {
		if _, err := os.Stat(filepath.Join(dir, "done")); err != nil {
			return err.Error()
		}
		return ""
	}); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(dir, "done"))
	if want := fmt.Sprint(process.RoundRobin, process.Highest); err != nil || strings.TrimSpace(string(got)) != want && mayRealTime() {
		t.Errorf("policy and priority are %q, %v, want %q", got, err, want)
	}
}

// onOneCPU runs a command on the first CPU that this process may use.
func onOneCPU(cmd *exec.Cmd) (out []byte, err error) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		var may, one unix.CPUSet
		if err = unix.SchedGetaffinity(0, &may); err != nil {
			return
		}
		cpu := 0
		for !may.IsSet(cpu) {
			cpu++
		}
		one.Set(cpu)
		if err = unix.SchedSetaffinity(0, &one); err == nil {
			out, err = cmd.CombinedOutput()
		}
	}()
	<-ended
	return out, err
}

// mayRealTime reports whether this process may have a real-time policy, because the kernel gives some groups no time
// for it.
func mayRealTime() bool {
	ended := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the policy ends with the thread
		ended <- unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: process.RoundRobin, Priority: process.Highest}, 0)
	}()
	return <-ended == nil
}
