package schedule

import (
	"errors"
	"fmt"
)

// errNoCycle is a call for a pod that PreFilter did not see.
var errNoCycle = errors.New("PreFilter of " + Name + " did not run: enable the plugin in multiPoint")

// errNoNode is a NodeInfo whose node was deleted.
var errNoNode = errors.New("no such node")

// errNotReserved is a pinned pod that is to be bound without a placement.
var errNotReserved = errors.New("no CPUs reserved")

func watchError(what string, err error) error { return fmt.Errorf("watch %s: %w", what, err) }
