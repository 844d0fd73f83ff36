package kubelet

import "errors"

// The classes of errors of this package.
var (
	// ErrOptions says that a Client cannot be made of these Options.
	ErrOptions = errors.New("bad kubelet client options")
	// ErrUntrusted says that the server is not known to be this node's kubelet.
	ErrUntrusted = errors.New("not the kubelet's certificate")
	// ErrUnauthorized says that the kubelet does not accept the token (401).
	ErrUnauthorized = errors.New("kubelet does not accept the token")
	// ErrForbidden says that the token's account lacks the permission (403).
	ErrForbidden = errors.New("kubelet forbids the request")
	// ErrAnswer says that the kubelet answered with another status than 200.
	ErrAnswer = errors.New("unexpected answer of the kubelet")
	// ErrTooLarge says that an answer or a file is larger than allowed.
	ErrTooLarge = errors.New("too large")
	// ErrMalformed says that an answer or a file does not look as documented.
	ErrMalformed = errors.New("malformed")
	// ErrNoState says that the kubelet's state or configuration file is not
	// there: nothing is known.
	ErrNoState = errors.New("no such kubelet file")
	// ErrReplaced says that a file is no longer the kubelet's: it was mounted by its
	// name, and the kubelet has another one in its place since.
	ErrReplaced = errors.New("the kubelet replaced its file since it was mounted")
)
