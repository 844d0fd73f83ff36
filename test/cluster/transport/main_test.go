package transport

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// inside reports that this process has its own directories.
const inside = "BERTH_TRANSPORT_INSIDE"

// TestMain runs the tests in their own mount name space. containerd's shim and the kubelet always use directories below
// /run, /var/lib and /var/log, and must not see or change other programs' files there.
func TestMain(m *testing.M) {
	if os.Getuid() != 0 {
		os.Exit(m.Run()) // The tests report what they need.
	}
	code, err := 0, error(nil)
	if os.Getenv(inside) == "" {
		code, err = again()
	} else if err = enter(); err == nil {
		code = m.Run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "mount name space of the tests:", err)
		code = 1
	}
	os.Exit(code)
}

// again runs this program in another mount name space and returns its exit code.
func again() (code int, err error) {
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), inside+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	// Its mounts are invisible elsewhere, and it ends with this process.
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	err = cmd.Run()
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		return max(1, exit.ExitCode()), nil
	}
	return 0, err
}

// enter mounts empty file systems at the directories.
func enter() error {
	for _, dir := range []string{"/run", "/var/lib", "/var/log"} {
		if err := unix.Mount("berth-test", dir, "tmpfs", 0, "mode=755"); err != nil {
			return fmt.Errorf("mount %s: %w", dir, err)
		}
	}
	return nil
}
