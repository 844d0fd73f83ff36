package plan

import (
	"errors"
	"fmt"
)

// ErrTwoOwners says that two capabilities want a value of the same place.
var ErrTwoOwners = errors.New("two owners want it")

// OneOwner returns nil when every place has one owner among the settings, whatever
// way leads to it, and otherwise an ErrTwoOwners for each that has more, naming the
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
