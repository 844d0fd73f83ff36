package schedule

import (
	"errors"
	"fmt"
)

// errNoCycle reports a call for a pod that PreFilter did not see.
var errNoCycle = errors.New("PreFilter of " + Name + " did not run: enable the plugin in multiPoint")

// errNoNode reports a NodeInfo whose node was deleted.
var errNoNode = errors.New("no such node")

// errNotReserved reports a bind of a pinned pod without a placement.
var errNotReserved = errors.New("no CPUs reserved")

func watchError(what string, err error) error { return fmt.Errorf("watch %s: %w", what, err) }
