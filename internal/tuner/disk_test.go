package tuner_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/berth-project/berth/internal/apply"
	"github.com/berth-project/berth/internal/tuner"
	"github.com/berth-project/berth/test/patience"
)

// TestUndoWithoutADisk: where real-time threads have every CPU, the threads of the kernel that a disk needs do not
// run, and a sync does not end. At the deadline everything is back before the first one, and these threads run once
// more before that of a rollback.
func TestUndoWithoutADisk(t *testing.T) {
	const runtime = "/proc/sys/kernel/sched_rt_runtime_us"
	for name, tt := range map[string]struct {
		confirm time.Duration
		whole   bool
	}{
		"deadline": {time.Nanosecond, true},
		"rollback": {1000 * time.Hour, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t)
			h.write("/proc/sys/kernel/random/boot_id", boot)
			h.write(runtime, "950000")
			before := h.files()
			values := some()
			values[runtime] = "-1"
			h.do(func(u *tuner.Tuner) { _, err := u.Apply(order(tt.confirm, values)); must(t, err) })
			r := trial{root: h.dir, state: h.state, settings: values, confirm: tt.confirm}
			child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestUndoWithoutADiskChild$")
			child.Env = append(append(os.Environ(), r.environ(never)...), withoutDisk+"="+name)
			child.Stdout, child.Stderr = t.Output(), t.Output()
			must(t, child.Start())
			ended := make(chan error, 1)
			go func() { ended <- child.Wait() }()
			// Once it sleeps in the first sync nothing changes any more.
			must(t, patience.Until(t.Context(), 10*time.Millisecond, func() string {
				if len(ended) > 0 || waitsToSync(t, child.Process.Pid) {
					return ""
				}
				return "it neither ended nor waits"
			}))
			now := h.files()
			if d := cmp.Diff(before, now); tt.whole && d != "" {
				t.Errorf("before the first sync (-before +after):\n%s", d)
			}
			if now[runtime] != before[runtime] {
				t.Errorf("before the first sync %s is %s", runtime, now[runtime])
			}
			must(t, child.Process.Kill())
			<-ended
		})
	}
}

// waitsToSync says whether a thread of a process waits in a sync.
func waitsToSync(t *testing.T, pid int) bool {
	t.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/syscall", pid))
	must(t, err)
	for _, thread := range threads {
		text, _ := os.ReadFile(thread) // it may be gone
		call, _, _ := strings.Cut(string(text), " ")
		if n, err := strconv.ParseUint(call, 10, 32); err == nil && slices.Contains(syncs(), uint32(n)) {
			return true
		}
	}
	return false
}

// syncs are the calls that wait for a disk.
func syncs() []uint32 { return []uint32{unix.SYS_FSYNC, unix.SYS_FDATASYNC, unix.SYS_SYNCFS} }

// withoutDisk has TestUndoWithoutADiskChild do its work.
const withoutDisk = "BERTH_TEST_WITHOUT_DISK"

// TestUndoWithoutADiskChild keeps a deadline, or rolls back, and none of its syncs ends: the kernel asks whoever holds
// the other end of a filter, and nobody answers. Without its variable it does nothing.
func TestUndoWithoutADiskChild(t *testing.T) {
	if os.Getenv(withoutDisk) == "" {
		return
	}
	filter := []unix.SockFilter{{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS}} // the number of the call
	calls := syncs()
	for i, call := range calls {
		filter = append(filter, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: call, Jt: uint8(len(calls) - i)})
	}
	filter = append(filter,
		unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
		unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_USER_NOTIF})
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	runtime.LockOSThread() // no_new_privs is a thread's until the filter is all threads'
	must(t, unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
	const flags = unix.SECCOMP_FILTER_FLAG_NEW_LISTENER | unix.SECCOMP_FILTER_FLAG_TSYNC | unix.SECCOMP_FILTER_FLAG_TSYNC_ESRCH
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&program))); errno != 0 {
		t.Fatal(errno)
	}
	h, _ := childHost(t)
	if os.Getenv(withoutDisk) == "rollback" {
		h.Salvage = true // as berth tune rollback
		u, err := tuner.Open(h)
		must(t, err)
		u.Rollback()
	} else {
		_, err := tuner.Await(t.Context(), h)
		must(t, err)
	}
	t.Error("it ended without a sync")
}

// TestRealTimeGoesBackFirst: whatever else is undone may wait for threads that do not run before.
func TestRealTimeGoesBackFirst(t *testing.T) {
	h := newHost(t)
	const runtime = "/proc/sys/kernel/sched_rt_runtime_us"
	h.write(runtime, "950000")
	values := some()
	values[runtime] = "-1"
	var back []string
	h.do(func(u *tuner.Tuner) { _, err := u.Apply(order(confirm, values)); must(t, err) })
	h.step = func(step string) {
		if what, at, _ := strings.Cut(step, ": "); what == string(apply.StepRestored) {
			back = append(back, at)
		}
	}
	h.do(func(u *tuner.Tuner) { u.Rollback() })
	if len(back) < 2 || !strings.Contains(back[0], "sched_rt_runtime_us") {
		t.Errorf("put back in the order %q", back)
	}
}
