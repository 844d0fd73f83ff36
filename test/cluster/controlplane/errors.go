package controlplane

import "errors"

var (
	// ErrProgram reports that a program is missing or cannot be started.
	ErrProgram = errors.New("program cannot be started")
	// ErrEnded reports that a child ended although its caller did not stop it.
	ErrEnded = errors.New("ended by itself")
	// ErrNotReady reports that a server did not become ready in time.
	ErrNotReady = errors.New("not ready")
	// ErrState reports that a caller asked to start a running server or to pause a server that does not run.
	ErrState = errors.New("wrong state")
	// ErrManifest reports that a document is not a Kubernetes object.
	ErrManifest = errors.New("manifest cannot be read")
	// ErrAuthority reports that a certificate authority cannot be parsed.
	ErrAuthority = errors.New("certificate authority cannot be read")
)
