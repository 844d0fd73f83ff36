package topology

import "errors"

// ErrNoMachine says that a tree has no online CPU. It is not a /sys tree, or its CPU directory was not recorded.
var ErrNoMachine = errors.New("no machine found")

// ErrRecording says that a text is not a recorded machine.
var ErrRecording = errors.New("bad recording")

// ErrInvalid says that a topology document contradicts itself.
var ErrInvalid = errors.New("invalid topology")
