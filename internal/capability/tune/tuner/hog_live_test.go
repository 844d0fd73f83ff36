package tuner_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/berth-project/berth/internal/linux/kernel"
)

// hogCPU makes TestHogChild occupy a whole CPU.
const hogCPU = "BERTH_TEST_HOG_CPU"

// The priorities of a hog and of the test, which must be able to observe the hogs.
const (
	hogPriority  = 10
	testPriority = 50
)

// realTime gives a thread a real-time policy. Thread 0 is the calling thread.
func realTime(t *testing.T, tid int, priority uint32) {
	t.Helper()
	must(t, unix.SchedSetAttr(tid, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: priority}, 0))
}

// TestHogChild is a child process that computes on one CPU and lets no ordinary thread run there. Without its variable
// it does nothing. It ends by itself, so that a dead test does not leave the machine blocked.
func TestHogChild(t *testing.T) {
	text := os.Getenv(hogCPU)
	if text == "" {
		return
	}
	cpu, err := strconv.Atoi(text)
	must(t, err)
	runtime.LockOSThread()
	var only unix.CPUSet
	only.Set(cpu)
	must(t, unix.SchedSetaffinity(0, &only))
	realTime(t, 0, hogPriority)
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		continue
	}
}

// hogsChild makes TestHogsChild do its work.
const hogsChild = "BERTH_TEST_HOGS"

// TestLiveDeadlineUnderRealTimeHogs: a profile may give real-time threads a whole CPU, and then threads that never
// sleep occupy every CPU. The keeper of the deadline must still run. Linux before 6.12 starves an ordinary process
// here.
func TestLiveDeadlineUnderRealTimeHogs(t *testing.T) {
	inGuest(t)
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestHogsChild$") // the policy ends with the child
	child.Env = append(os.Environ(), hogsChild+"=1")
	if out, err := child.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestHogsChild is a child process that gives itself a real-time policy to observe the hogs. Without its variable it
// does nothing.
func TestHogsChild(t *testing.T) {
	if os.Getenv(hogsChild) == "" {
		return
	}
	settings := guest(t)
	// These writes start kernel threads (khugepaged, a worker), and wait for kthreadd. Before Linux 6.12 the hogs starve
	// kthreadd.
	delete(settings, "/sys/kernel/mm/transparent_hugepage/enabled")
	delete(settings, "/sys/devices/virtual/workqueue/cpumask")
	before := kernelFiles(t, settings)
	const limit = "/proc/sys/kernel/sched_rt_runtime_us"
	text, err := os.ReadFile(limit)
	must(t, err)
	t.Cleanup(func() { must(t, os.WriteFile(limit, text, 0)) })
	must(t, os.WriteFile(limit, []byte("-1"), 0))
	threads, err := filepath.Glob("/proc/self/task/*")
	must(t, err)
	for _, thread := range threads {
		tid, err := strconv.Atoi(filepath.Base(thread))
		must(t, err)
		realTime(t, tid, testPriority)
	}
	r := trial{root: "/", state: filepath.Join(t.TempDir(), "tune"), settings: settings, confirm: 5 * time.Second}
	if !r.apply(t, never) {
		t.Fatal("not applied")
	}
	keeper := r.keeper(t)
	if score, err := os.ReadFile(filepath.Join(keeper, "oom_score_adj")); err != nil || strings.TrimSpace(string(score)) != "-1000" {
		t.Errorf("the kernel may kill what keeps the deadline for memory: oom_score_adj %q, %v", score, err)
	}
	hogs := startHogs(t)
	// An undo of a unit's slices calls this first.
	if _, err := kernel.DefaultThreadSlice(); err != nil {
		t.Error(err)
	}
	r.undone(t)
	endHogs(t, hogs)
	if d := cmp.Diff(before, kernelFiles(t, settings)); d != "" {
		t.Errorf("(-before +after):\n%s", d)
	}
}

// startHogs starts a real-time thread that computes on each CPU.
func startHogs(t *testing.T) []*exec.Cmd {
	t.Helper()
	var hogs []*exec.Cmd
	for cpu := range runtime.NumCPU() {
		hog := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestHogChild$") //nolint:gosec // this test's own binary
		hog.Env = append(os.Environ(), fmt.Sprintf("%s=%d", hogCPU, cpu))
		must(t, hog.Start())
		hogs = append(hogs, hog)
	}
	return hogs
}

// endHogs ends the hogs and fails if one has ended before.
func endHogs(t *testing.T, hogs []*exec.Cmd) {
	t.Helper()
	for cpu, hog := range hogs {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", hog.Process.Pid))
		if err != nil || strings.Contains(string(stat), ") Z ") {
			t.Errorf("the hog of CPU %d ended before the profile was undone", cpu)
		}
		must(t, hog.Process.Kill())
		_ = hog.Wait()
	}
}

// TestLiveApplyThatStarvesItself: real-time threads occupy their share of each CPU, and a profile lets them use all of
// it. The apply then gets no CPU and holds the lock. At the deadline its keeper makes it end and undoes it.
func TestLiveApplyThatStarvesItself(t *testing.T) {
	inGuest(t)
	settings := guest(t)
	settings["/proc/sys/kernel/sched_rt_runtime_us"] = "-1"
	before := kernelFiles(t, settings)
	hogs := startHogs(t)
	r := trial{root: "/", state: filepath.Join(t.TempDir(), "tune"), settings: settings, confirm: 15 * time.Second}
	r.apply(t, never)
	r.undone(t)
	endHogs(t, hogs)
	if d := cmp.Diff(before, kernelFiles(t, settings)); d != "" {
		t.Errorf("(-before +after):\n%s", d)
	}
}
