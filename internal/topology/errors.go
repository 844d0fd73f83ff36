package topology

import "errors"

// ErrNoMachine says that a tree holds no online CPU: it is no /sys tree, or
// one whose CPU directory was not recorded.
var ErrNoMachine = errors.New("no machine found")

// ErrRecording says that a text is no recorded machine.
var ErrRecording = errors.New("bad recording")

// ErrInvalid says that a topology document contradicts itself.
var ErrInvalid = errors.New("invalid topology")
