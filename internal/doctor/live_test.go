package doctor_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-project/berth/internal/doctor"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/proof/scratch"
)

// faultEnv makes the test binary the process that causes the fault of this name.
const faultEnv = "BERTH_TEST_FAULT"

// stuck is the number of waiting threads, which is more than the running threads of a busy host.
const stuck = 48

// lifetime ends every fault, even if the test dies.
const lifetime = 8 * time.Second

func TestMain(m *testing.M) {
	runtime.LockOSThread()
	switch os.Getenv(faultEnv) {
	case "":
		runtime.UnlockOSThread()
		os.Exit(m.Run())
	case "hog":
		begin(pin(0))
		burn(lifetime)
	case "free hog":
		begin(nil)
		burn(lifetime)
	case "fifo":
		begin(pin(0), unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: 1, Priority: 40}, 0))
		burn(4 * lifetime)
	case "crowd": // as long as the test, which samples slowly on a busy machine
		begin(syscall.Setpriority(syscall.PRIO_PROCESS, 0, 19))
		parent := os.Getppid()
		for range crowd() {
			go func() {
				for os.Getppid() == parent {
					burn(100 * time.Millisecond)
				}
				os.Exit(1)
			}()
		}
		select {}
	case "remote":
		begin(pin(0), allocateOn(1))
		for parent := os.Getppid(); os.Getppid() == parent; {
			if region, err := touch(8 << 20); err != nil || unix.Munmap(region) != nil {
				os.Exit(1)
			}
		}
	case "full":
		errs := []error{pin(runtime.NumCPU() - 1), allocateOn(1)}
		for usable(1) > 0.04 {
			if _, err := touch(4 << 20); err != nil {
				errs = append(errs, err)
				break
			}
		}
		begin(errs...)
		time.Sleep(4 * lifetime)
	case "flood":
		flood()
	case "stuck":
		for range stuck {
			go wait()
		}
		time.Sleep(200 * time.Millisecond)
		begin(nil)
		time.Sleep(lifetime)
	}
}

// crowd returns a number of running threads: two for each CPU and one more.
func crowd() int { return 2*runtime.NumCPU() + 1 }

// begin tells the test that the fault exists.
func begin(errs ...error) {
	for _, err := range errs {
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
	}
	fmt.Println("ready")
}

func pin(cpu int) error {
	var set unix.CPUSet
	set.Set(cpu)
	return unix.SchedSetaffinity(0, &set)
}

func burn(d time.Duration) {
	end := time.Now().Add(d)
	for time.Now().Before(end) {
	}
}

// allocateOn makes this thread allocate memory on one NUMA node only.
func allocateOn(node int) error {
	var mask unix.CPUSet
	mask.Set(node)
	return unix.SetMemPolicy(unix.MPOL_BIND, &mask)
}

// touch allocates and touches pages.
func touch(bytes int) ([]byte, error) {
	region, err := unix.Mmap(-1, 0, bytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	for at := 0; at < len(region); at += os.Getpagesize() {
		region[at] = 1
	}
	return region, err
}

// usable returns the part of a node's memory that is free or page cache.
func usable(node int) float64 {
	text, err := os.ReadFile(fmt.Sprintf("/sys/devices/system/node/node%d/meminfo", node))
	if err != nil {
		return 0
	}
	var free, all float64
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		n, _ := strconv.ParseFloat(fields[3], 64)
		switch fields[2] {
		case "MemTotal:":
			all = n
		case "MemFree:", "Active(file):", "Inactive(file):":
			free += n
		}
	}
	return free / all
}

// flood sends packets to many sockets of this host at once, which causes software interrupts.
func flood() {
	const copies, port = 64, 9
	to := &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 255, 255, 255}}
	errs := []error{pin(0)}
	socket := 0
	for range copies {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
		errs = append(errs, err, unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1),
			unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_BROADCAST, 1), unix.Bind(fd, &unix.SockaddrInet4{Port: port}))
		socket = fd
	}
	begin(errs...)
	for parent := os.Getppid(); os.Getppid() == parent; {
		if err := unix.Sendto(socket, []byte("x"), 0, to); err != nil {
			os.Exit(1)
		}
	}
}

// wait keeps its thread in uninterruptible sleep: after CLONE_VFORK a parent waits in that state until the child ends.
// The child only sleeps.
func wait() {
	runtime.LockOSThread()
	if pid, _, _ := syscall.RawSyscall6(syscall.SYS_CLONE, syscall.CLONE_VFORK|uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0); pid == 0 {
		_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, unix.PR_SET_PDEATHSIG, uintptr(syscall.SIGKILL), 0)
		for {
			_, _, _ = syscall.RawSyscall6(syscall.SYS_PPOLL, 0, 0, 0, 0, 0, 0)
		}
	}
}

// start runs a fault, in group if that is not nil, until the test ends.
func start(t *testing.T, fault string, group *scratch.Group) (pid int) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Env = append(os.Environ(), faultEnv+"="+fault,
		// A raw system call keeps its share of GOMAXPROCS, and the garbage collector cannot stop it.
		fmt.Sprint("GOMAXPROCS=", max(2*stuck, crowd())), "GOGC=off")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
	})
	if line, _ := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatalf("%s: %s", fault, line)
	}
	if group != nil {
		if err := group.Attach(cmd.Process.Pid); err != nil {
			t.Fatal(err)
		}
	}
	return cmd.Process.Pid
}

// watch takes two samples of this host.
func watch(t *testing.T, root *hostfs.Root, d time.Duration, managed ...doctor.Managed) doctor.Report {
	t.Helper()
	before, err := doctor.Take(root, managed, nil)
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(d)
	now, err := doctor.Take(root, managed, nil)
	if err != nil {
		t.Fatal(err)
	}
	return doctor.Examine(before, now)
}

// shows fails the test unless the report has the finding, with a value of one of these files. On a host that other
// programs use too, a finding with more values than it shows also passes.
func shows(t *testing.T, r doctor.Report, code string, files ...string) {
	t.Helper()
	for i, f := range r.Findings {
		for _, e := range f.Evidence {
			isOf := slices.ContainsFunc(files, func(file string) bool { return strings.Contains(e.File, file) })
			if f.Code == code && (isOf || !ours() && strings.Contains(e.Value, "more values")) {
				t.Logf("finding %d of %d: %s: %s", i+1, len(r.Findings), e.File, e.Value)
				return
			}
		}
	}
	t.Errorf("no %s of %s: %+v, not checked %+v", code, files, r.Findings, r.Skipped)
}

// TestLive examines this host unchanged, and then with faults that the test causes on it.
func TestLive(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds on the real kernel: make test runs it")
	}
	root := open(t, "/")
	t.Run("this host", func(t *testing.T) {
		report := watch(t, root, time.Second)
		for _, f := range report.Findings {
			t.Logf("%s %s: %v", f.Severity, f.Code, f.Evidence)
			for _, e := range f.Evidence {
				_, err := os.Stat(e.File)
				if passing := strings.HasPrefix(e.File, "/proc/") || strings.Contains(e.File, "cgroup"); err != nil && !passing {
					t.Errorf("%s: evidence of a file that is not there: %s", f.Code, e.File)
				}
			}
		}
		machine, err := topology.Discover(root.FS())
		if err != nil {
			t.Fatal(err)
		}
		for code := range codes(report) {
			numa := strings.HasPrefix(code, "numa-") || code == "nic-remote"
			if numa && len(machine.Nodes) == 1 || code == "knob-drift" || code == "rt-hog" {
				t.Errorf("%s is found on a host without it", code)
			}
		}
	})
	if ours() {
		return // TestLiveFaults causes them there, and requires each to come first
	}
	t.Run("knob-drift", func(t *testing.T) {
		const file = "/proc/sys/kernel/sched_rr_timeslice_ms"
		shows(t, watch(t, root, 100*time.Millisecond, doctor.Managed{File: file, Desired: "12345"}), "knob-drift", file)
	})
	t.Run("uninterruptible", func(t *testing.T) {
		pid := start(t, "stuck", nil)
		shows(t, watch(t, root, time.Second), "uninterruptible", fmt.Sprintf("/proc/%d/", pid))
	})
	t.Run("confined", func(t *testing.T) { confined(t, root) })
	t.Run("overloaded", func(t *testing.T) { overloaded(t, root) })
	if os.Geteuid() != 0 {
		t.Skip("groups and real-time policies need root; runs in the VM: make verify-kernels")
	}
	t.Run("throttled", func(t *testing.T) {
		host, err := cgroup.Open(root)
		if err != nil {
			t.Fatal(err)
		}
		group, err := scratch.New(host, "", scratch.Name("test-doctor"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := group.Close(); err != nil {
				t.Error(err)
			}
		})
		if err := group.SetMax(5000, 50000); err != nil {
			t.Fatal(err)
		}
		start(t, "free hog", group)
		shows(t, watch(t, root, 2*time.Second), "throttled", group.Path())
	})
	t.Run("rt-hog", func(t *testing.T) {
		pid := start(t, "fifo", nil)
		report := watch(t, root, 1200*time.Millisecond)
		for range 3 {
			if _, found := codes(report)["rt-hog"]; found {
				break
			}
			report = watch(t, root, 3*time.Second)
		}
		shows(t, report, "rt-hog", fmt.Sprintf("/proc/%d/", pid))
	})
}

// confined pins three processes to one CPU. Whether another CPU is idle at that time depends on other users of this
// host, so the test reads the kernel's idle time itself.
func confined(t *testing.T, root *hostfs.Root) {
	for range 3 {
		start(t, "hog", nil)
	}
	before := idle(t)
	report := watch(t, root, 2*time.Second)
	others := (idle(t) - before) / 2
	_, found := codes(report)["confined"]
	_, hidden := codes(report)["steal"]
	t.Logf("found %v with %.2f other CPUs idle", found, others)
	if !hidden && (!found && others > 0.7 || found && others < 0.3) {
		t.Errorf("found %v with %.2f other CPUs idle: %+v", found, others, report.Findings)
	}
}

// overloaded runs more threads than there are CPUs. Whether they use all CPUs depends on the host, so the test reads
// the kernel's ticks itself, and repeats the check if some CPU was idle.
func overloaded(t *testing.T, root *hostfs.Root) {
	start(t, "crowd", nil)
	var shares []float64
	for d := time.Second; d <= 8*time.Second; d *= 2 {
		idled, all := ticks(t)
		report := watch(t, root, d)
		idledNow, allNow := ticks(t)
		shares = append(shares, (idledNow-idled)/(allNow-all))
		found := codes(report)
		if _, hidden := found["steal"]; hidden {
			t.Logf("the hypervisor takes the CPUs, which hides it: %v", found)
			return
		}
		if _, is := found["overloaded"]; is {
			shows(t, report, "overloaded", "/proc/stat")
			if _, calm := found["not-overloaded"]; calm {
				t.Error("and not-overloaded as well")
			}
			return
		}
		if shares[len(shares)-1] < 0.02 {
			t.Fatalf("not found while CPUs were idle for %.3f of the time: %+v", shares, report.Findings)
		}
	}
	t.Fatalf("%d threads do not fill the CPUs, which were idle for %.3f of the time", crowd(), shares)
}

// ticks returns the ticks in which a CPU was idle, and all ticks.
func ticks(t *testing.T) (idle, all float64) {
	t.Helper()
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(string(text), "\n")
	for i, field := range strings.Fields(first)[1:9] { // guest ticks are included in user ticks
		n, err := strconv.ParseFloat(field, 64)
		if err != nil {
			t.Fatal(err)
		}
		if all += n; i == 3 || i == 4 {
			idle += n
		}
	}
	return idle, all
}

// idle returns how many seconds all CPUs but the first have been idle.
func idle(t *testing.T) (sum float64) {
	t.Helper()
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var name string
		var user, nice, system, idle, iowait float64
		n, _ := fmt.Sscan(line, &name, &user, &nice, &system, &idle, &iowait)
		if n == 6 && strings.HasPrefix(name, "cpu") && name != "cpu" && name != "cpu0" {
			sum += (idle + iowait) / 100
		}
	}
	return sum
}
