package mover

import "errors"

// ErrCanceled says that an order was ended by Cancel, or that the mover was.
var ErrCanceled = errors.New("pass was canceled")

// ErrNoRoom says that the local nodes have no room for what is elsewhere.
var ErrNoRoom = errors.New("no room on the local nodes")
