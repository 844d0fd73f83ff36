package kernel

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/berth-project/berth/test/kernel/job"
)

// testLimit bounds one test binary by the guest's clock, which runs on while this machine serves
// others, and longTestLimit one that makes all its repetitions; see job.Stride.
const (
	testLimit     = 10 * time.Minute
	longTestLimit = time.Hour
)

// quietAfter is how much longer than one test binary may take a VM may say nothing; a guest says
// what each test of it came to. So a test that hangs prints its goroutines before the VM is ended.
// It is time by the clock, as the guest's is: a guest whose processors all spin leaves this machine
// little time to serve, and would so extend its own limit.
const quietAfter = 5 * time.Minute

// bootLimit is how long a guest may take to its first word, which is that of its first job: it takes
// seconds, and some ten where this machine serves others as well.
const bootLimit = 3 * time.Minute

// ErrHung means that the guest said nothing for quietAfter, or bootLimit. It comes with ErrGuest and
// with what its processors did then.
var ErrHung = errors.New("the guest says nothing")

// limit is what bounds one test binary.
func limit(stride int) time.Duration {
	if stride == 1 {
		return longTestLimit
	}
	return testLimit
}

// ErrGuest means that the guest did not get to its end: it panicked, hung, or QEMU failed.
var ErrGuest = errors.New("guest did not finish")

// ErrSilent means that nothing was ever heard of the guest, not even of its kernel: the
// emulator hung at power-on, which QEMU's does now and then on a machine with several
// processors. It comes with ErrGuest, and says nothing about the kernel or the tests.
var ErrSilent = errors.New("nothing was heard of the guest")

// ErrCrashed means that QEMU itself ended by a fault of its own, which it does now and then on a
// machine with many processors. It says nothing about the kernel or the tests.
var ErrCrashed = errors.New("the emulator crashed")

// ErrStalled means that a processor of the guest did nothing for stallAfter but what its kernel
// does with preemption off. The emulator brings that about, too: it may lose an interrupt that one
// of many processors waits for. It comes with ErrGuest and the stacks on the console, and with the
// same stall a second time it is a fault of the kernel or of what the tests made it do.
var ErrStalled = errors.New("the guest's kernel stalled")

// ErrReset means that the guest ended in the middle of a job, and its kernel said nothing of a panic:
// one of its processors was reset, which the emulator brings about now and then where processors
// come and go. It comes with ErrGuest, and the same a second time is no fault of the emulator.
var ErrReset = errors.New("the guest ended in the middle of a job")

// stallAfter is when the kernel calls it a stall, by the guest's clock. By itself it does so after
// 21 seconds, prints it each minute, and goes on for ever.
const stallAfter = time.Minute

// stallPanic is what the kernel says then.
const stallPanic = "Kernel panic - not syncing: RCU Stall"

// Crashed says whether a process ended by a signal that stands for a fault in it.
func Crashed(state *os.ProcessState) bool {
	status, ok := state.Sys().(syscall.WaitStatus)
	if !ok || !status.Signaled() {
		return false
	}
	switch status.Signal() {
	case syscall.SIGSEGV, syscall.SIGBUS, syscall.SIGILL, syscall.SIGFPE, syscall.SIGABRT, syscall.SIGTRAP:
		return true
	}
	return false
}

// VM is one boot: which kernel, on which machine, with what inside.
type VM struct {
	Machine Machine
	Kernel  Kernel
	Layout  string   // cgroup layout; see guest/mounts.go.
	Image   string   // Path of the initramfs.
	Without []string // Names of jobs in the image that this boot leaves out.
	Stride  int      // Which of many like repetitions its tests make; see job.Stride.

	Arguments []string // What the kernel is booted with besides.

	Quiet time.Duration // How long it may say nothing, if not what its tests may take.
}

// Run boots the VM and returns what its jobs said. With ErrGuest it returns the results so
// far, and the error ends with the last lines of the kernel's console, all of which it keeps.
func (v VM) Run(ctx context.Context) (map[string]job.Result, error) {
	dir, err := os.MkdirTemp("", "berth-vm-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	limited, end := context.WithCancelCause(ctx)
	defer end(nil)
	quiet := cmp.Or(v.Quiet, limit(v.Stride)+quietAfter)
	began := time.Now()
	silence := time.AfterFunc(min(quiet, bootLimit), func() { end(fmt.Errorf("%w, %v after its start", ErrHung, time.Since(began).Round(time.Second))) })
	defer silence.Stop()

	cmd := v.command(limited, dir)
	var complaint, last strings.Builder
	cmd.Stderr = &complaint
	cmd.Cancel = func() error {
		if errors.Is(context.Cause(limited), ErrHung) {
			interrupt(filepath.Join(dir, monitorName), &last)
			return nil
		}
		return cmd.Process.Kill()
	}
	port, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("pipe: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	results, rest, readErr := job.Read(heard{port, func() { silence.Reset(quiet) }})
	waitErr := cmd.Wait()
	failure := errors.Join(context.Cause(limited), waitErr, readErr, unfinished(results, rest))
	if failure == nil {
		return results, nil
	}
	text := whole(filepath.Join(dir, consoleName))
	if len(results) == 0 && text == "" {
		failure = errors.Join(failure, ErrSilent)
	}
	if cmd.ProcessState.Success() && cut(results) != "" && !strings.Contains(text, "Kernel panic") {
		failure = errors.Join(failure, ErrReset)
	}
	if strings.Contains(text, stallPanic) {
		failure = errors.Join(failure, ErrStalled)
	}
	if Crashed(cmd.ProcessState) {
		failure = errors.Join(failure, ErrCrashed)
	}
	return results, fmt.Errorf("%w: %w\n%s%s\n%s", ErrGuest, failure, complaint.String()+last.String(), keep(text), tail(text))
}

// heard is what the guest says; each word is progress.
type heard struct {
	io.Reader
	progress func()
}

func (h heard) Read(p []byte) (int, error) {
	n, err := h.Reader.Read(p)
	if n > 0 {
		h.progress()
	}
	return n, err
}

// Names in the directory of one boot.
const (
	consoleName = "console" // What the kernel says.
	monitorName = "monitor" // The socket on which QEMU takes orders.
)

// command composes the QEMU command line. Of devices there are two serial ports, the kernel's
// console into a file and the guest's answers on standard output, and an empty disk with two
// queues: each has an interrupt that only the kernel may move (a managed IRQ).
func (v VM) command(ctx context.Context, dir string) *exec.Cmd {
	args := append(v.Machine.Arguments(),
		"-no-reboot", "-monitor", "unix:"+filepath.Join(dir, monitorName)+",server=on,wait=off",
		"-serial", "file:"+filepath.Join(dir, consoleName), "-serial", "stdio",
		"-blockdev", "null-co,node-name=empty,size=1048576,read-zeroes=on",
		"-device", "virtio-blk-pci,drive=empty,num-queues=2",
		"-kernel", v.Kernel.Image, "-initrd", v.Image,
		"-append", CommandLine(append([]string{
			"rdinit=/init",
			"rcupdate.rcu_cpu_stall_timeout=" + strconv.Itoa(int(stallAfter.Seconds())), "sysctl.kernel.panic_on_rcu_stall=1",
			"unknown_nmi_panic", "panic_print=0x41", // Whose tasks and processors a panic prints: all.
			job.LayoutParam + "=" + v.Layout,
			job.WithoutParam + "=" + strings.Join(v.Without, ","),
			job.StrideParam + "=" + strconv.Itoa(max(1, v.Stride)),
		}, v.Arguments...)...))
	cmd := exec.CommandContext(ctx, QEMU, args...)
	// An interrupted test run must not leave a VM behind that eats two cores.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.WaitDelay = postMortem
	return cmd
}

// unfinished reports the guest's own complaints, a boot in which no job ran, and the job that the
// guest did not get over.
func unfinished(results map[string]job.Result, rest string) error {
	if text := strings.TrimSpace(rest); text != "" {
		return errors.New(text)
	}
	if len(results) == 0 {
		return errors.New("no job ran")
	}
	if name := cut(results); name != "" {
		return errors.New("it ended in " + name)
	}
	return nil
}

// cut returns the job in whose middle the guest ended, "" for none.
func cut(results map[string]job.Result) string {
	for name, result := range results {
		if !result.Ended {
			return name
		}
	}
	return ""
}

// whole returns what the kernel said on its console, or why nobody knows.
func whole(console string) string {
	data, err := os.ReadFile(console)
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(strings.ReplaceAll(string(data), "\r", ""))
}

// keep puts the whole console where the next boot does not remove it, and says where.
func keep(console string) string {
	file, err := os.CreateTemp("", "berth-console-")
	if err != nil {
		return err.Error()
	}
	_, err = file.WriteString(console)
	if err = errors.Join(err, file.Close()); err != nil {
		return err.Error()
	}
	return "console, whole in " + file.Name() + ":"
}

// tail returns the last lines, or those around a panic: stacks are before it, and all tasks after it.
func tail(console string) string {
	const before, lines = 120, 200
	all := strings.Split(console, "\n")
	from := len(all) - lines
	if panicked := slices.IndexFunc(all, func(line string) bool { return strings.Contains(line, "Kernel panic") }); panicked >= 0 {
		from = min(from, panicked-before)
	}
	from = max(0, from)
	return strings.Join(all[from:min(len(all), from+lines)], "\n")
}
