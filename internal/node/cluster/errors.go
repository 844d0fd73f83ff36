package cluster

import "errors"

var (
	// ErrNoCluster means that no API server was configured or found: the process is in no pod with a service account.
	ErrNoCluster = errors.New("no cluster")
	// ErrOptions means that the options are invalid.
	ErrOptions = errors.New("options cannot be used")

	// errUndecided means that an access review ended without a decision.
	errUndecided = errors.New("an authorizer of the API server failed")
	errNotListed = errors.New("pods were not listed yet")
	errWatch     = errors.New("watch was not started")
)
