package cgroupfile

import "errors"

// ErrNoUnits says that systemd would have to write the value and cannot be
// reached.
var ErrNoUnits = errors.New("systemd cannot be asked")
