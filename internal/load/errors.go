package load

import "errors"

var (
	// ErrTooMuch says that a schedule or a request asks for more than this
	// package ever sends or burns: it refuses instead of clamping, because a
	// clamped arm would no longer be the arm that was asked for.
	ErrTooMuch = errors.New("more load than allowed")
	// ErrBadLoad says that a load's numbers make no sense (negative, zero).
	ErrBadLoad = errors.New("invalid load")
)
