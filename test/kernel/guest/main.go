// Program guest is the init of a test VM. As process 1 it mounts the file systems of a booted host, with the cgroup
// layout of the kernel command line. It then starts itself again to run the jobs, reaps orphans of the tests, and
// powers the machine off.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"

	"golang.org/x/sys/unix"
)

// port is the second serial port; the kernel uses the first.
const port = "/dev/ttyS1"

func main() {
	if os.Getpid() != 1 {
		if err := runJobs(); err != nil {
			fmt.Println("guest:", err)
			os.Exit(1)
		}
		return
	}
	if err := boot(); err != nil {
		fmt.Println("guest:", err)
	}
	unix.Sync()
	if err := unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF); err != nil {
		fmt.Println("guest: power off:", err)
	}
}

// boot does the work of process 1 until all jobs are done.
func boot() error {
	if err := mountAll(); err != nil {
		return err
	}
	if err := loopbackUp(); err != nil {
		return err
	}
	tty, err := openRaw(port)
	if err != nil {
		return err
	}
	runner := exec.Command("/init", "jobs")
	runner.Stdout, runner.Stderr = tty, tty
	// Own session: a test that signals its process group must not reach process 1.
	runner.SysProcAttr = &unix.SysProcAttr{Setsid: true}
	runner.Env = []string{"PATH=/bin", "HOME=/tmp", "TMPDIR=/tmp", "GOTRACEBACK=all"}
	if err := runner.Start(); err != nil {
		return fmt.Errorf("start jobs: %w", err)
	}
	return reap(runner.Process.Pid)
}

// reap waits for every child, including orphans of the tests, until pid has ended.
func reap(pid int) error {
	for {
		var status unix.WaitStatus
		child, err := unix.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return fmt.Errorf("wait: %w", err)
		case child == pid:
			return nil
		}
	}
}

// openRaw opens a serial port and switches off everything that changes bytes.
func openRaw(name string) (*os.File, error) {
	tty, err := os.OpenFile(name, os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	mode, err := unix.IoctlGetTermios(int(tty.Fd()), unix.TCGETS)
	if err != nil {
		return nil, fmt.Errorf("mode of %s: %w", name, err)
	}
	mode.Oflag &^= unix.OPOST
	mode.Lflag &^= unix.ECHO | unix.ICANON | unix.ISIG
	mode.Cflag = mode.Cflag&^unix.CBAUD | unix.B115200
	if err := unix.IoctlSetTermios(int(tty.Fd()), unix.TCSETS, mode); err != nil {
		return nil, fmt.Errorf("raw mode of %s: %w", name, err)
	}
	return tty, nil
}

// loopbackUp brings up 127.0.0.1, on which servers under test listen.
func loopbackUp() error {
	sock, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		return fmt.Errorf("socket: %w", err)
	}
	defer unix.Close(sock)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return fmt.Errorf("name lo: %w", err)
	}
	lo.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(sock, unix.SIOCSIFFLAGS, lo); err != nil {
		return fmt.Errorf("lo up: %w", err)
	}
	return nil
}
