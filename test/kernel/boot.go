package kernel

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/berth-project/berth/test/kernel/job"
	"github.com/berth-project/berth/test/patience"
)

// quietLimit is how long a VM may say nothing, in time that this machine served; a guest says what
// each test of it came to.
const quietLimit = 12 * time.Minute

// testLimit bounds one test binary by the guest's clock, which runs on while this machine serves
// others. It is the shorter one, so that a test that hangs prints its goroutines before the VM is
// ended.
const testLimit = 10 * time.Minute

// ErrGuest means that the guest did not get to its end: it panicked, hung, or QEMU failed.
var ErrGuest = errors.New("guest did not finish")

// ErrSilent means that nothing was ever heard of the guest, not even of its kernel: the
// emulator hung at power-on, which QEMU's does now and then on a machine with several
// processors. It comes with ErrGuest, and says nothing about the kernel or the tests.
var ErrSilent = errors.New("nothing was heard of the guest")

// ErrCrashed means that QEMU itself ended by a fault of its own, which it does now and then on a
// machine with many processors. It says nothing about the kernel or the tests.
var ErrCrashed = errors.New("the emulator crashed")

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
}

// Run boots the VM and returns what its jobs said. With ErrGuest it returns the results so
// far, and the error ends with the last lines of the kernel's console.
func (v VM) Run(ctx context.Context) (map[string]job.Result, error) {
	dir, err := os.MkdirTemp("", "berth-vm-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	console := filepath.Join(dir, "console")
	limited, progress, cancel := patience.WithLimit(ctx, quietLimit)
	defer cancel()

	cmd := v.command(limited, console)
	var complaint strings.Builder
	cmd.Stderr = &complaint
	port, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("pipe: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	results, rest, readErr := job.Read(heard{port, progress})
	waitErr := cmd.Wait()
	failure := errors.Join(context.Cause(limited), waitErr, readErr, unfinished(results, rest))
	if failure == nil {
		return results, nil
	}
	said := tail(console)
	if len(results) == 0 && strings.TrimSpace(said) == "" {
		failure = errors.Join(failure, ErrSilent)
	}
	if Crashed(cmd.ProcessState) {
		failure = errors.Join(failure, ErrCrashed)
	}
	return results, fmt.Errorf("%w: %w\n%sconsole:\n%s", ErrGuest, failure, complaint.String(), said)
}

// heard is what the guest says; each word is progress.
type heard struct {
	io.Reader
	progress func()
}

func (h heard) Read(p []byte) (int, error) {
	n, err := h.Reader.Read(p)
	h.progress()
	return n, err
}

// command composes the QEMU command line. Of devices there are two serial ports, the kernel's
// console into a file and the guest's answers on standard output, and an empty disk with two
// queues: each has an interrupt that only the kernel may move (a managed IRQ).
func (v VM) command(ctx context.Context, console string) *exec.Cmd {
	args := append(v.Machine.Arguments(),
		"-no-reboot",
		"-serial", "file:"+console, "-serial", "stdio",
		"-blockdev", "null-co,node-name=empty,size=1048576,read-zeroes=on",
		"-device", "virtio-blk-pci,drive=empty,num-queues=2",
		"-kernel", v.Kernel.Image, "-initrd", v.Image,
		"-append", CommandLine(
			"rdinit=/init",
			job.LayoutParam+"="+v.Layout,
			job.WithoutParam+"="+strings.Join(v.Without, ","),
			job.StrideParam+"="+strconv.Itoa(max(1, v.Stride))))
	cmd := exec.CommandContext(ctx, QEMU, args...)
	// An interrupted test run must not leave a VM behind that eats two cores.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// unfinished reports the guest's own complaints and a boot in which no job ran.
func unfinished(results map[string]job.Result, rest string) error {
	if text := strings.TrimSpace(rest); text != "" {
		return errors.New(text)
	}
	if len(results) == 0 {
		return errors.New("no job ran")
	}
	return nil
}

// tail returns the last lines of the console, where a panic is.
func tail(console string) string {
	const lines = 40
	data, err := os.ReadFile(console)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimSpace(strings.ReplaceAll(string(data), "\r", "")), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
