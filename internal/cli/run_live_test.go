package cli_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/internal/linux/kernel"
	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// reportFlag makes the program "berthed" of this test binary do something other than report.
const reportFlag = "BERTH_TEST_BERTHED"

// reported is what a command observes about itself.
type reported struct {
	PID              int
	CPUs             cpuset.Set
	Memory           string
	Policy, Priority uint32
	Slice            time.Duration
	IgnoresInterrupt bool
}

// berthed is the command that berth run starts in the tests. It prints its settings, or ends as requested. If it should
// ignore interrupts, it executes the program berth instead.
func berthed() {
	switch how, value, _ := strings.Cut(os.Getenv(reportFlag), " "); how {
	case "exit":
		code, _ := strconv.Atoi(value)
		os.Exit(code)
	case "kill":
		number, _ := strconv.Atoi(value)
		for { // until the signal arrives
			_ = syscall.Kill(os.Getpid(), syscall.Signal(number))
			time.Sleep(time.Millisecond)
		}
	case "wait":
		fmt.Println(ownReport().CPUs)
		_, _ = io.Copy(io.Discard, os.Stdin)
	case "print":
		text, _ := os.ReadFile(value)
		fmt.Println("slice", strings.TrimSpace(string(text)))
	case "hang":
		fmt.Println("running")
		_ = os.WriteFile(value, nil, 0o600)
		<-time.After(time.Hour)
	case "ignore":
		signal.Ignore(os.Interrupt)
		exe, _ := os.Executable()
		_ = os.Unsetenv(reportFlag)
		_ = syscall.Exec(exe, append([]string{"berth"}, os.Args[1:]...), os.Environ())
	default:
		_ = json.NewEncoder(os.Stdout).Encode(ownReport())
	}
}

func ownReport() reported {
	r := reported{PID: os.Getpid()}
	r.CPUs, _ = kernel.ThreadAffinity(os.Getpid())
	if attr, err := unix.SchedGetAttr(os.Getpid(), 0); err == nil {
		r.Policy, r.Priority, r.Slice = attr.Policy, attr.Priority, time.Duration(attr.Runtime)
	}
	maps, _ := os.ReadFile("/proc/self/numa_maps")
	for line := range strings.Lines(string(maps)) {
		if words := strings.Fields(line); len(words) > 1 {
			r.Memory = words[1]
			break
		}
	}
	r.IgnoresInterrupt = signal.Ignored(os.Interrupt)
	return r
}

// runs returns a command that runs berth run with the flags, and its own binary as the inner command.
func runs(t *testing.T, how string, flags ...string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	command := filepath.Join(t.TempDir(), "berthed")
	if err := os.Symlink(exe, command); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Args = append(append([]string{"berth", "run"}, flags...), "--", command)
	cmd.Env = append(os.Environ(), reportFlag+"="+how)
	return cmd
}

// sees runs the command and returns what it observed about itself.
func sees(t *testing.T, flags ...string) reported {
	t.Helper()
	cmd := runs(t, "", flags...)
	cmd.Stderr = t.Output()
	out, err := cmd.Output()
	var r reported
	if err != nil || json.Unmarshal(out, &r) != nil {
		t.Fatalf("berth run %v: %v: %s", flags, err, out)
	}
	if r.PID != cmd.Process.Pid {
		t.Errorf("the command is process %d, berth was %d", r.PID, cmd.Process.Pid)
	}
	return r
}

func liveMachine(t *testing.T) *topology.Topology {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("real-time policies need root; the VM runs it: make verify-kernels")
	}
	root, err := hostfs.Open("/")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	machine, err := topology.Discover(root.FS())
	if err != nil {
		t.Fatal(err)
	}
	return machine
}

// TestLiveRun: the command has the values of the flags, and its other values are unchanged.
func TestLiveRun(t *testing.T) {
	machine := liveMachine(t)
	plain := ownReport()
	last, _ := plain.CPUs.Max()
	one := cpuset.Set{}.Add(last)
	if r := sees(t, "--cpus", fmt.Sprintf("%d-%d", last, last)); r.CPUs != one || r.Policy != plain.Policy || r.Memory != plain.Memory {
		t.Errorf("CPUs %s: %+v", one, r)
	}
	for n := 1; n <= plain.CPUs.Size(); n++ {
		if r := sees(t, "--cpus", strconv.Itoa(n)); r.CPUs.Size() != n || !r.CPUs.IsSubsetOf(machine.Online) {
			t.Errorf("%d CPUs: %+v", n, r)
		}
	}
	for policy, want := range map[string]reported{
		"fifo:40": {Policy: unix.SCHED_FIFO, Priority: 40}, "rr:1": {Policy: unix.SCHED_RR, Priority: 1},
		"batch": {Policy: unix.SCHED_BATCH}, "idle": {Policy: unix.SCHED_IDLE}, "other": {Policy: unix.SCHED_NORMAL},
	} {
		if r := sees(t, "--policy", policy); r.Policy != want.Policy || r.Priority != want.Priority || r.CPUs != plain.CPUs {
			t.Errorf("policy %s: %+v", policy, r)
		}
	}
}

// TestLiveRunMemory: the command can bind to each node with memory, and gets CPUs of that node.
func TestLiveRunMemory(t *testing.T) {
	machine := liveMachine(t)
	for _, node := range machine.Nodes {
		mems := fmt.Sprint(node.ID)
		if node.MemoryBytes == 0 {
			continue
		}
		r := sees(t, "--cpus", "1", "--mems", mems)
		if r.Memory != "bind:"+mems || !node.CPUs.IsEmpty() && !r.CPUs.IsSubsetOf(node.CPUs) {
			t.Errorf("node %s with CPUs %s: %+v", mems, node.CPUs, r)
		}
	}
}

// TestLiveRunSlice: a kernel with slices per thread sets the slice; an older kernel refuses the flag.
func TestLiveRunSlice(t *testing.T) {
	if ownReport().Slice > 0 {
		if r := sees(t, "--slice", "7ms", "--policy", "batch"); r.Slice != 7*time.Millisecond || r.Policy != unix.SCHED_BATCH {
			t.Errorf("slice of 7ms: %+v", r)
		}
		return
	}
	out, err := runs(t, "", "--slice", "7ms").CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 3 || !strings.Contains(string(out), "Linux 6.12") {
		t.Errorf("a slice that the kernel does not have: %v: %s", err, out)
	}
}

// TestLiveRunInherits: a value without a flag is inherited. --cpus N chooses among the inherited CPUs, --cpus LIST may
// use others, and a slice survives a change of the policy.
func TestLiveRunInherits(t *testing.T) {
	liveMachine(t)
	whole := ownReport()
	last, _ := whole.CPUs.Max()
	first, _ := whole.CPUs.Min()
	mine := cpuset.Set{}.Add(last)
	inThread(t, func() {
		if err := kernel.BindCPUs(mine); err != nil {
			t.Error(err)
			return
		}
		slice := whole.Slice
		if slice > 0 {
			slice = 7 * time.Millisecond
			if err := kernel.Schedule(kernel.Scheduling{Slice: slice}); err != nil {
				t.Error(err)
			}
		}
		if r := sees(t, "--cpus", "1"); r.CPUs != mine || r.Slice != slice {
			t.Errorf("1 CPU of %s, slice %v: %+v", mine, slice, r)
		}
		if out, err := runs(t, "", "--cpus", "2").CombinedOutput(); whole.CPUs.Size() > 1 && (exitCodeOf(err) != 1 || !strings.Contains(string(out), "started with")) {
			t.Errorf("2 CPUs of %s: %v: %s", mine, err, out)
		}
		if r := sees(t, "--cpus", fmt.Sprintf("%d-%d", first, first)); r.CPUs != (cpuset.Set{}).Add(first) {
			t.Errorf("CPU %d by its number: %+v", first, r)
		}
		for policy, want := range map[string]uint32{"batch": unix.SCHED_BATCH, "other": unix.SCHED_NORMAL} {
			if r := sees(t, "--policy", policy); r.Policy != want || r.Slice != slice || r.CPUs != mine {
				t.Errorf("policy %s with slice %v: %+v", policy, slice, r)
			}
		}
	})
	if r := sees(t, "--policy", "batch"); r.Slice != whole.Slice {
		t.Errorf("the default slice %v: %+v", whole.Slice, r)
	}
}

// inThread runs work on its own thread, which ends afterwards.
func inThread(t *testing.T, work func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		if unix.Gettid() == os.Getpid() {
			defer runtime.UnlockOSThread() // the first thread cannot end before the process
			inThread(t, work)
			return
		}
		work()
	}()
	<-done
}

func exitCodeOf(err error) int {
	if exit, is := errors.AsType[*exec.ExitError](err); is {
		return exit.ExitCode()
	}
	return 0
}

// TestLiveRunEnds: exit codes and signals of the command are passed on, and an ignored interrupt stays ignored.
func TestLiveRunEnds(t *testing.T) {
	// A background shell may have started the test with interrupts ignored, which commands would inherit.
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, os.Interrupt)
	defer signal.Stop(interrupts)
	for _, code := range []int{0, 1, 4, 77} {
		cmd := runs(t, fmt.Sprint("exit ", code), "--policy", "other")
		err := cmd.Run()
		if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != code {
			t.Errorf("exit code %d: %v", code, err)
		}
	}
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL, syscall.SIGINT} {
		cmd := runs(t, fmt.Sprintf("kill %d", sig), "--policy", "other")
		err := cmd.Run()
		status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
		if !ok || !status.Signaled() || status.Signal() != sig {
			t.Errorf("%v: %v", sig, err)
		}
	}
	for _, how := range []string{"", "ignore"} {
		cmd := runs(t, how, "--policy", "other")
		if how != "" {
			cmd.Args[0] = "berthed"
		}
		out, err := cmd.Output()
		var r reported
		if err != nil || json.Unmarshal(out, &r) != nil || r.IgnoresInterrupt != (how != "") {
			t.Errorf("%q: %v: %s", how, err, out)
		}
	}
}

// TestLiveRunsSideBySide: a second command gets different CPUs from the first, as long as there are enough.
func TestLiveRunsSideBySide(t *testing.T) {
	machine := liveMachine(t)
	if machine.Online.Size() < 2 {
		t.Fatalf("CPUs %s: want two or more", machine.Online)
	}
	first := runs(t, "wait", "--cpus", "1")
	input, err := first.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := first.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	var text string
	if _, err := fmt.Fscanln(output, &text); err != nil {
		t.Fatal(err)
	}
	held, err := cpuset.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	second := runs(t, "", "--cpus", "1")
	var notes strings.Builder
	second.Stderr = &notes
	out, err := second.Output()
	var r reported
	if err != nil || json.Unmarshal(out, &r) != nil {
		t.Fatalf("%v: %s%s", err, out, notes.String())
	}
	if r.CPUs.Intersects(held) && !strings.Contains(notes.String(), "other programs are pinned to") {
		t.Errorf("both have CPUs %s, and it is not said: %s", held, notes.String())
	}
	if err := errors.Join(input.Close(), first.Wait()); err != nil {
		t.Error(err)
	}
}
