package service

import "errors"

var (
	// ErrForeign means that a unit of this name is not by Install.
	ErrForeign = errors.New("not written by berth install-systemd")
	// ErrPath means that the unit could not use a path.
	ErrPath = errors.New("the unit cannot use this path")
	// ErrJob means that systemd took the unit, and did not start or stop the agent.
	ErrJob = errors.New("systemd could not do it")
)
