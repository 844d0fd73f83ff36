package nri

import "errors"

// The classes of errors of this package.
var (
	// ErrOptions means that a Plugin cannot be made from these Options.
	ErrOptions = errors.New("bad NRI plugin options")
	// ErrLate means that the handler did not answer in time. The runtime receives it for an event that must be
	// answered.
	ErrLate = errors.New("no answer in time")
	// ErrClosed means that the runtime ended the connection.
	ErrClosed = errors.New("the runtime closed the NRI connection")
	// ErrOverrun means that too many events waited for the handler. The connection is closed, and the next begins with
	// Synchronize.
	ErrOverrun = errors.New("too many NRI events wait to be handled")
)
