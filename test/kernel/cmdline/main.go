// Command cmdline is the first program of a guest that a boot loader of its own started: it prints
// what the kernel was booted with to the console, and powers off.
package main

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

func main() {
	if err := report(); err != nil {
		panic(err) // the kernel panics with its first program, and the console has both
	}
}

// report prints the line that the test looks for.
func report() error {
	for dir, kind := range map[string]string{"/proc": "proc", "/dev": "devtmpfs"} {
		if err := unix.Mount(kind, dir, kind, 0, ""); err != nil {
			return fmt.Errorf("mount %s: %w", dir, err)
		}
	}
	args, err := os.ReadFile("/proc/cmdline")
	if err != nil {
		return err
	}
	console, err := os.OpenFile("/dev/ttyS0", os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(console, "\nbooted with: %s\n", args); err != nil {
		return err
	}
	return unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
}
