package cgroupfile

import "errors"

// ErrNoUnits says that systemd has to write the value and cannot be reached.
var ErrNoUnits = errors.New("systemd cannot be asked")

// ErrForeign says that Berth leaves a slice alone: it has a unit file, or another program started it.
var ErrForeign = errors.New("has a unit file, or another program started it: name it in units of the profile to use it")

// ErrOccupied says that units, or processes, are in a slice that Berth would stop.
var ErrOccupied = errors.New("it has")

// ErrNoIdle says that systemd knows no idle units, because it is older than version 252. It then does not write
// cpu.idle, and the kernel refuses systemd's weight while the group is idle.
var ErrNoIdle = errors.New("systemd knows no CPUWeight=idle")
