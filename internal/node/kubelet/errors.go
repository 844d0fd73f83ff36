package kubelet

import "errors"

// The classes of errors of this package.
var (
	// ErrOptions means that a Client cannot be made from these Options.
	ErrOptions = errors.New("bad kubelet client options")
	// ErrUntrusted means that the server could not be identified as this node's kubelet.
	ErrUntrusted = errors.New("not the kubelet's certificate")
	// ErrUnauthorized means that the kubelet does not accept the token (401).
	ErrUnauthorized = errors.New("kubelet does not accept the token")
	// ErrForbidden means that the token's account lacks the permission (403).
	ErrForbidden = errors.New("kubelet forbids the request")
	// ErrAnswer means that the kubelet answered with another status than 200.
	ErrAnswer = errors.New("unexpected answer of the kubelet")
	// ErrTooLarge means that an answer or a file is larger than allowed.
	ErrTooLarge = errors.New("too large")
	// ErrMalformed means that an answer or a file is not in the documented form.
	ErrMalformed = errors.New("malformed")
	// ErrNoState means that the kubelet's state or configuration file is missing: nothing is known.
	ErrNoState = errors.New("no such kubelet file")
	// ErrReplaced means that the kubelet has replaced a file since the file was mounted by its name.
	ErrReplaced = errors.New("the kubelet replaced its file since it was mounted")
)
