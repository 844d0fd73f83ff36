package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"

	"golang.org/x/sys/unix"
)

// orders is the disk with the commands, a line for each, up to the first zero byte.
const orders = "/dev/vdb"

// cut is the command that ends a boot as a power cut does: nothing more reaches the disk.
const cut = "cut"

// obey runs the commands of the second disk as a shell does, with their output on the console. Then it leaves the root
// file system as a shutdown does. Without that disk it does nothing.
func obey(console *os.File) error {
	disk, err := os.ReadFile(orders)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := unix.Mount("", "/", "", unix.MS_REMOUNT, ""); err != nil {
		return fmt.Errorf("make / writable: %w", err)
	}
	if err := mount(map[string]string{"/sys": "sysfs", "/run": "tmpfs", "/tmp": "tmpfs"}); err != nil {
		return err
	}
	text, _, _ := bytes.Cut(disk, []byte{0})
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line == cut {
			return unix.Reboot(unix.LINUX_REBOOT_CMD_RESTART)
		}
		cmd := exec.Command("/bin/sh", "-c", line)
		cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root"}
		cmd.Stdout, cmd.Stderr = console, console
		_, _ = fmt.Fprintf(console, "$ %s\n", line)
		if err := cmd.Run(); err != nil {
			_, _ = fmt.Fprintf(console, "failed: %s: %v\n", line, err)
		}
	}
	_ = unix.Kill(-1, unix.SIGKILL) // what they left running may write to the disk
	for {
		if _, err := unix.Wait4(-1, nil, 0, nil); errors.Is(err, unix.ECHILD) {
			break
		}
	}
	unix.Sync()
	return unix.Mount("", "/", "", unix.MS_REMOUNT|unix.MS_RDONLY, "")
}
