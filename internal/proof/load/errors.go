package load

import "errors"

var (
	// ErrTooMuch reports that a schedule or a request asks for more than this package ever sends or burns. The package
	// refuses instead of clamping: a clamped arm would no longer be the requested arm.
	ErrTooMuch = errors.New("more load than allowed")
	// ErrBadLoad reports that a load's numbers are invalid (negative, zero).
	ErrBadLoad = errors.New("invalid load")
)
