package nri

import "errors"

// The classes of errors of this package.
var (
	// ErrOptions says that a Plugin cannot be made of these Options.
	ErrOptions = errors.New("bad NRI plugin options")
	// ErrLate says that the handler did not answer in time; the runtime gets it
	// for an event that must be answered.
	ErrLate = errors.New("no answer in time")
	// ErrClosed says that the runtime ended the connection.
	ErrClosed = errors.New("the runtime closed the NRI connection")
	// ErrOverrun says that so many events wait for the handler that the
	// connection was given up, to begin again with Synchronize.
	ErrOverrun = errors.New("too many NRI events wait to be handled")
)
