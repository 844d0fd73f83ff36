package cri

import "errors"

// The classes of errors of this package.
var (
	// ErrEndpoint says that an endpoint is not the path of a Unix socket.
	ErrEndpoint = errors.New("bad container runtime endpoint")
	// ErrAway says that the runtime does not answer, or not in time.
	ErrAway = errors.New("container runtime does not answer")
	// ErrAnswer says that the runtime refused a request.
	ErrAnswer = errors.New("unexpected answer of the container runtime")
	// ErrMalformed says that what the runtime says of a container does not look
	// as containerd and CRI-O document it.
	ErrMalformed = errors.New("malformed")
)
