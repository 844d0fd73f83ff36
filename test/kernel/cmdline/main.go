// Command cmdline is the first program of a guest that a boot loader started. It prints the kernel's arguments to the
// console, and powers off.
package main

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

func main() {
	if err := report(); err != nil {
		panic(err) // the kernel panics when its first program ends, and the console has both messages
	}
}

// report prints the line that the test searches for.
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
