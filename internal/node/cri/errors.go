package cri

import "errors"

// The classes of errors of this package.
var (
	// ErrEndpoint means that an endpoint is not the path of a Unix socket.
	ErrEndpoint = errors.New("bad container runtime endpoint")
	// ErrAway means that the runtime does not answer, or not in time.
	ErrAway = errors.New("container runtime does not answer")
	// ErrAnswer means that the runtime refused a request.
	ErrAnswer = errors.New("unexpected answer of the container runtime")
	// ErrMalformed means that a container's information is not in the form that containerd and CRI-O document.
	ErrMalformed = errors.New("malformed")
)
