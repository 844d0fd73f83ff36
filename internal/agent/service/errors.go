package service

import "errors"

var (
	// ErrForeign means that a unit of this name was not written by Install.
	ErrForeign = errors.New("not written by berth install-systemd")
	// ErrPath means that the unit could not use a path.
	ErrPath = errors.New("the unit cannot use this path")
	// ErrJob means that systemd loaded the unit, but did not start or stop the agent.
	ErrJob = errors.New("systemd could not do it")
)
