package controlplane

import "errors"

var (
	// ErrProgram says that a program is missing or could not be started.
	ErrProgram = errors.New("program cannot be started")
	// ErrEnded says that a child ended although its caller did not stop it.
	ErrEnded = errors.New("ended by itself")
	// ErrNotReady says that a server did not become ready in time.
	ErrNotReady = errors.New("not ready")
	// ErrState says that a server was asked to start while it runs, or to pause while it
	// does not.
	ErrState = errors.New("wrong state")
	// ErrManifest says that a document cannot be read as a Kubernetes object.
	ErrManifest = errors.New("manifest cannot be read")
	// ErrAuthority says that a certificate authority cannot be read.
	ErrAuthority = errors.New("certificate authority cannot be read")
)
