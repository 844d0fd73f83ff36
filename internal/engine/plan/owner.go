package plan

import (
	"errors"
	"fmt"
)

// ErrTwoOwners means that two capabilities desire a value of the same place.
var ErrTwoOwners = errors.New("two owners want it")

// OneOwner returns nil when every place has one owner among the settings, whichever driver writes there. Otherwise it
// returns an ErrTwoOwners for each setting whose owner differs from the first owner of the place. The error names the
// target, the owners and their workloads.
func OneOwner(settings []Setting) error {
	first := make(map[Place]Setting, len(settings))
	var errs []error
	for _, s := range settings {
		f, known := first[s.Place()]
		switch {
		case !known:
			first[s.Place()] = s
		case f.Owner != s.Owner:
			errs = append(errs, fmt.Errorf("%s: %w: %s wants %s for workload %q, %s wants %s for workload %q",
				s.Target, ErrTwoOwners, f.Owner, f.Value, f.Workload, s.Owner, s.Value, s.Workload))
		}
	}
	return errors.Join(errs...)
}
