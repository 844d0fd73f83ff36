package thread_test

import (
	"errors"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/berth-project/berth/internal/engine/apply"
	"github.com/berth-project/berth/internal/engine/driver/thread"
	"github.com/berth-project/berth/internal/engine/journal"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/kernel"
)

// end kills the second process of a unit and waits for it, so that the ids of its threads are free. The kernel counts
// the start of a process in clock ticks: a process that starts later starts in another tick.
func (u *unit) end() {
	u.t.Helper()
	const ticks = 30 * time.Millisecond
	time.Sleep(ticks)
	must(u.t, u.second.Process.Kill())
	_ = u.second.Wait() // it was killed
}

// TestLiveEndedSinceTheList checks that a thread which ends after the threads were listed does no harm: neither to an
// apply, nor to an undo. If another process has its id by then, that process keeps its policy.
func TestLiveEndedSinceTheList(t *testing.T) {
	for name, reused := range map[string]bool{"gone": false, "another process has its id": true} {
		for _, during := range []apply.Step{apply.StepWritten, apply.StepRestored} {
			t.Run(name+", "+string(during), func(t *testing.T) {
				u := newUnit(t)
				before, target := u.has(), thread.PolicyTarget(u.top.Path(), "idle")
				foreign := 0
				a, j := u.applier(func(s apply.Step, _ plan.Target) {
					if s != during || u.second.ProcessState != nil {
						return
					}
					u.end() // the driver has set one thread, and has the others in its list
					if reused {
						foreign = withID(t, u.second.Process.Pid)
					}
				})
				if r := u.apply(a, target); r.Err != nil || !r.Wrote || r.Effective != thread.All {
					t.Errorf("%+v", r)
				}
				u.all("applied", func(s kernel.Scheduled) bool { return s.Class == kernel.Idle })
				u.restored(a, apply.OutcomeRestored)
				u.asBefore("undone", before, kernel.Other)
				if u.second.ProcessState == nil {
					t.Errorf("%s: no such step", during)
				}
				if foreign != 0 {
					if s, err := kernel.ThreadScheduled(foreign); err != nil || s.Class != kernel.Other {
						t.Errorf("the other process has %+v, %v", s, err)
					}
				}
				if len(j.Entries()) > 0 {
					t.Errorf("entries %v", j.Entries())
				}
				must(t, j.Close())
			})
		}
	}
}

// TestLiveIDReused checks that a process which has the id of a recorded thread, but started later, keeps its policy at
// an undo, although it has the policy that the record names.
func TestLiveIDReused(t *testing.T) {
	u := newUnit(t)
	before, target := u.has(), thread.PolicyTarget(u.top.Path(), "idle")
	u.with(func(a *apply.Applier, _ *journal.Journal) {
		if r := u.apply(a, target); r.Err != nil {
			t.Fatalf("%+v", r)
		}
	})
	u.end()
	foreign := withID(t, u.second.Process.Pid)
	if foreign == 0 {
		return
	}
	must(t, unix.SchedSetAttr(foreign, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_IDLE}, 0))
	u.with(func(a *apply.Applier, j *journal.Journal) {
		u.restored(a, apply.OutcomeRestored)
		u.asBefore("undone", before, kernel.Other)
		if len(j.Entries()) > 0 {
			t.Errorf("entries %v", j.Entries())
		}
	})
	if s, err := kernel.ThreadScheduled(foreign); err != nil || s.Class != kernel.Idle {
		t.Errorf("the other process has %+v, %v", s, err)
	}
}

// withID starts a process outside the unit that has an id and sleeps until the test ends (set_tid of clone3(2)). It
// returns 0 if this user may not choose an id, as in some containers.
func withID(t *testing.T, id int) int {
	t.Helper()
	ids := [1]int32{int32(id)}
	args := struct {
		flags, pidfd, childTID, parentTID, exitSignal, stack, stackSize, tls uint64
		setTID                                                               uintptr
		setTIDSize, cgroup                                                   uint64
	}{exitSignal: uint64(syscall.SIGCHLD), setTID: uintptr(unsafe.Pointer(&ids)), setTIDSize: 1}
	pid, _, errno := syscall.RawSyscall(unix.SYS_CLONE3, uintptr(unsafe.Pointer(&args)), unsafe.Sizeof(args), 0)
	if errno == 0 && pid == 0 { // the child has no other threads of the runtime, and makes system calls only
		_, _, _ = syscall.RawSyscall(unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, uintptr(syscall.SIGKILL), 0)
		for {
			_, _, _ = syscall.RawSyscall6(unix.SYS_PPOLL, 0, 0, 0, 0, 0, 0)
		}
	}
	if errno == syscall.EPERM {
		t.Log("this user may not choose the id of a process")
		return 0
	}
	if errno != 0 {
		t.Fatalf("clone3 with id %d: %v", id, errno)
	}
	t.Cleanup(func() {
		must(t, syscall.Kill(int(pid), syscall.SIGKILL))
		for {
			if _, err := syscall.Wait4(int(pid), nil, 0, nil); !errors.Is(err, syscall.EINTR) {
				return
			}
		}
	})
	return int(pid)
}
