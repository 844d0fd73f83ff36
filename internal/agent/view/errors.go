package view

import "errors"

// Errors of the lines of a stream.
var (
	// ErrFormat means that a line has a format that this version does not read.
	ErrFormat = errors.New("unknown format of the view")
	// ErrNoView means that a line is no view, and there is no view that it could change.
	ErrNoView = errors.New("a change without a view")
	// ErrNoEntry means that a line has a patch of an entry that the view does not have.
	ErrNoEntry = errors.New("a change of an entry that the view does not have")
)
