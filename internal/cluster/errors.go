package cluster

import "errors"

var (
	// ErrNoCluster is a process that was given no API server and finds
	// none: it runs in no pod with a service account.
	ErrNoCluster = errors.New("no cluster")
	// ErrOptions are options that cannot be used.
	ErrOptions = errors.New("options cannot be used")

	// errUndecided is an access review that ended without an answer.
	errUndecided = errors.New("an authorizer of the API server failed")
	errNotListed = errors.New("pods were not listed yet")
	errWatch     = errors.New("watch was not started")
)
