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

// TestDeadlineWithoutADisk: where real-time threads have every CPU, the threads of the kernel that a disk needs do not
// run, and a sync does not end. Everything is back before the first one.
func TestDeadlineWithoutADisk(t *testing.T) {
	h := newHost(t)
	h.write("/proc/sys/kernel/random/boot_id", boot)
	before := h.files()
	r := trial{root: h.dir, state: h.state, settings: some(), confirm: time.Second}
	h.do(func(u *tuner.Tuner) { _, err := u.Apply(order(time.Nanosecond, some())); must(t, err) })
	keeper := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKeeperWithoutADisk$")
	keeper.Env = append(append(os.Environ(), r.environ(never)...), withoutDisk+"=1")
	keeper.Stdout, keeper.Stderr = t.Output(), t.Output()
	must(t, keeper.Start())
	ended := make(chan error, 1)
	go func() { ended <- keeper.Wait() }()
	// Once it sleeps in the first sync nothing changes any more.
	must(t, patience.Until(t.Context(), 10*time.Millisecond, func() string {
		if len(ended) > 0 || waitsToSync(t, keeper.Process.Pid) {
			return ""
		}
		return "the keeper neither ended nor waits"
	}))
	if d := cmp.Diff(before, h.files()); d != "" {
		t.Errorf("before the first sync (-before +after):\n%s", d)
	}
	must(t, keeper.Process.Kill())
	<-ended
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

// withoutDisk has TestKeeperWithoutADisk do its work.
const withoutDisk = "BERTH_TEST_WITHOUT_DISK"

// TestKeeperWithoutADisk keeps a deadline, and none of its syncs ends: the kernel asks whoever holds the other end of
// a filter, and nobody answers. Without its variable it does nothing.
func TestKeeperWithoutADisk(t *testing.T) {
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
	_, err := tuner.Await(t.Context(), h)
	t.Errorf("the keeper ended without a sync: %v", err)
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
