// Command cmdline is the first program of a guest that a boot loader started. It prints the kernel's arguments to the
// console, and powers off. Before that, on a machine with a second disk, it runs the commands on that disk.
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

// report prints the line that the test searches for, and runs the commands.
func report() error {
	if err := mount(map[string]string{"/proc": "proc", "/dev": "devtmpfs"}); err != nil {
		return err
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
	if err := obey(console); err != nil {
		return err
	}
	return unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
}

// mount mounts file systems by their directory.
func mount(all map[string]string) error {
	for dir, kind := range all {
		if err := unix.Mount(kind, dir, kind, 0, ""); err != nil {
			return fmt.Errorf("mount %s: %w", dir, err)
		}
	}
	return nil
}
