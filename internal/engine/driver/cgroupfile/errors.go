package cgroupfile

import "errors"

// ErrNoUnits says that systemd has to write the value and cannot be reached.
var ErrNoUnits = errors.New("systemd cannot be asked")

// ErrNoIdle says that systemd knows no idle units, because it is older than version 252. It then does not write
// cpu.idle, and the kernel refuses systemd's weight while the group is idle.
var ErrNoIdle = errors.New("systemd knows no CPUWeight=idle")
