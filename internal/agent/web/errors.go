package web

import "errors"

// Errors of streams.
var (
	// ErrEnded means that a stream ended before its reader wanted.
	ErrEnded = errors.New("the agent ended its stream")
	// ErrSilent means that no stream opened, or that an open stream sent nothing, for long. If none opened, the error
	// names what did not answer: perhaps the API server is silent, and not the agent.
	ErrSilent = errors.New("the agent is silent")
	// ErrLongLine means that a line is longer than that of any node.
	ErrLongLine = errors.New("a line of the stream is too long: allowed: 64 MiB")
)
