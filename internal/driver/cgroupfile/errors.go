package cgroupfile

import "errors"

// ErrNoUnits says that systemd would have to write the value and cannot be
// reached.
var ErrNoUnits = errors.New("systemd cannot be asked")

// ErrNoIdle says that systemd knows no idle units, as before version 252. It does not write
// cpu.idle then, and the kernel refuses its weight while the group is idle.
var ErrNoIdle = errors.New("systemd knows no CPUWeight=idle")
