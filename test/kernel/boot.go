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

// testLimit bounds one test binary by the guest's clock, which also runs while this machine does other work.
// longTestLimit bounds a binary that makes all its repetitions; see job.Stride.
const (
	testLimit     = 10 * time.Minute
	longTestLimit = time.Hour
)

// quietAfter is the additional time, beyond the limit of one test binary, during which a VM may write nothing; a guest
// reports each test of the binary. So a hanging test prints its goroutines before the VM is ended. It is wall-clock
// time, like the guest's: a guest whose processors all spin leaves this machine little CPU time, and would so extend
// its own limit.
const quietAfter = 5 * time.Minute

// bootLimit is how long a guest may take until the first output of its first job. It takes seconds, or about ten on a
// busy machine.
const bootLimit = 3 * time.Minute

// ErrHung reports that the guest wrote nothing for quietAfter, or until the limit of its boot. It comes with ErrGuest
// and the state of the guest's processors.
var ErrHung = errors.New("the guest says nothing")

// limit returns the limit of one test binary.
func limit(stride int) time.Duration {
	if stride == 1 {
		return longTestLimit
	}
	return testLimit
}

// ErrGuest reports that the guest did not reach its end: it panicked, it hung, or QEMU failed.
var ErrGuest = errors.New("guest did not finish")

// ErrSilent reports that neither the guest nor its kernel wrote anything: the emulator hung at power-on, as QEMU
// sometimes does on a machine with several processors. It comes with ErrGuest, and says nothing about the kernel or the
// tests.
var ErrSilent = errors.New("nothing was heard of the guest")

// ErrCrashed reports that QEMU itself crashed, as it sometimes does on a machine with many processors. It says nothing
// about the kernel or the tests.
var ErrCrashed = errors.New("the emulator crashed")

// ErrStalled reports that for stallAfter a processor of the guest only ran kernel code with preemption off. The
// emulator can also cause that: it may lose an interrupt that one of many processors waits for. It comes with ErrGuest
// and the stacks on the console. If the same stall happens a second time, it is a fault of the kernel or of what the
// tests made it do.
var ErrStalled = errors.New("the guest's kernel stalled")

// ErrReset reports that the guest ended in the middle of a job, without a kernel panic. One of its processors was
// reset, which the emulator sometimes causes when processors go offline and online. It comes with ErrGuest. If the same
// happens a second time, the emulator is not the cause.
var ErrReset = errors.New("the guest ended in the middle of a job")

// stallAfter is when the kernel reports a stall, by the guest's clock. By default the kernel does so after 21 seconds,
// repeats the report each minute, and never panics.
const stallAfter = time.Minute

// stallPanic is the kernel's message at that time.
const stallPanic = "Kernel panic - not syncing: RCU Stall"

// Crashed reports whether a process ended by a signal that indicates a fault in it.
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

// VM is one boot: a kernel, a machine and a guest image.
type VM struct {
	Machine Machine
	Kernel  Kernel
	Layout  string   // cgroup layout; see guest/mounts.go.
	Image   string   // Path of the initramfs.
	Without []string // Names of jobs in the image that this boot omits.
	Stride  int      // Which of many similar repetitions its tests make; see job.Stride.

	Arguments []string // Additional arguments of the kernel.

	Boot  time.Duration // How long it may take until the first output of its first job; by default bootLimit.
	Quiet time.Duration // How long it may write nothing; by default the limit of its tests.
}

// Run boots the VM and returns the results of its jobs. With ErrGuest it returns the results so far. The error then
// ends with the last lines of the kernel's console, which Run keeps in full.
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
	silence := time.AfterFunc(min(quiet, cmp.Or(v.Boot, bootLimit)), func() { end(fmt.Errorf("%w, %v after its start", ErrHung, time.Since(began).Round(time.Second))) })
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

// heard is the guest's output; each read is progress.
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
	consoleName = "console" // Messages of the kernel.
	monitorName = "monitor" // The socket of QEMU's monitor.
)

// command builds the QEMU command line. The devices are two serial ports, one for the kernel's console into a file and
// one for the guest's answers on standard output, and an empty disk. The disk has two queues, each with an interrupt
// that only the kernel may move (a managed IRQ).
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
			"unknown_nmi_panic", "panic_print=0x41", // A panic prints all tasks and processors.
			job.LayoutParam + "=" + v.Layout,
			job.WithoutParam + "=" + strings.Join(v.Without, ","),
			job.StrideParam + "=" + strconv.Itoa(max(1, v.Stride)),
		}, v.Arguments...)...))
	cmd := exec.CommandContext(ctx, QEMU, args...)
	// An interrupted test run must not leave a VM behind that uses two cores.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.WaitDelay = postMortem
	return cmd
}

// unfinished reports the guest's own messages, a boot in which no job ran, and the job in which the guest ended.
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

// cut returns the job in which the guest ended, "" for none.
func cut(results map[string]job.Result) string {
	for name, result := range results {
		if !result.Ended {
			return name
		}
	}
	return ""
}

// whole returns the kernel's console output, or the error of reading it.
func whole(console string) string {
	data, err := os.ReadFile(console)
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(strings.ReplaceAll(string(data), "\r", ""))
}

// keep copies the whole console to a file that the next boot does not remove, and returns its path.
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

// tail returns the last lines, or the lines around a panic, which has stacks before it and all tasks after it.
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
