// Package throttled reads how much quotas throttle workloads that did not ask for burst, while somebody views a host.
// It shows which workloads burst would help, and writes nothing.
package throttled

import (
	"errors"
	"time"

	"github.com/berth-project/berth/internal/agent/view"
	"github.com/berth-project/berth/internal/capability"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/node/observed"
	"github.com/berth-project/berth/internal/value/unit"
)

// The files are read at most once in every, while somebody views the host. A reading older than kept belongs to an
// earlier viewer.
const (
	every = 10 * time.Second
	kept  = time.Minute
)

// Others compares readings of groups that no capability checks. The zero value is ready for use; it is not safe for
// concurrent use.
type Others struct {
	at   time.Duration
	read map[string]view.Counted // by group, nil before the first reading
	said map[string]*view.Throttling
}

// Look returns how much quotas throttled the containers that burst does not check, by name, and reads their files if
// that is due. It only reads.
func (o *Others) Look(now time.Duration, host *cgroup.Host, all []observed.Workload, quotas []capability.Quota) (map[string]*view.Throttling, error) {
	passed := now - o.at
	if o.read != nil && passed < every {
		return o.said, nil
	}
	before := o.read
	if passed > kept {
		before = nil
	}
	looked := make(map[string]bool, len(quotas))
	for i := range quotas {
		looked[quotas[i].Workload] = true
	}
	o.at, o.read, o.said = now, map[string]view.Counted{}, map[string]*view.Throttling{}
	var errs []error
	for i := range all {
		c := &all[i]
		if looked[c.Name] || c.Group == "" {
			continue
		}
		counted, limited, err := countedOf(host, c.Group)
		switch {
		case errors.Is(err, cgroup.ErrNoGroup), errors.Is(err, cgroup.ErrNoKnob):
			continue // it ended, or nothing can throttle it
		case err != nil:
			errs = append(errs, err)
			continue
		case !limited:
			continue
		}
		o.read[c.Group] = counted
		if was, known := before[c.Group]; known {
			if t := view.ThrottlingBetween(was, counted, passed); t != nil {
				o.said[c.Name] = t
			}
		}
	}
	return o.said, errors.Join(errs...)
}

// countedOf reads a group and closes it again. limited says that the group has a quota.
func countedOf(host *cgroup.Host, path string) (counted view.Counted, limited bool, err error) {
	group, err := host.Group(path, cgroup.CPU, cgroup.CPUAcct)
	if err != nil {
		return counted, false, err
	}
	defer group.Close()
	bandwidth, err := group.Bandwidth()
	if err != nil || bandwidth.Quota == unit.NoLimit {
		return counted, false, err
	}
	throttling, err := group.Throttling()
	if err != nil {
		return counted, false, err
	}
	used, err := group.Usage()
	return view.Counted{Limit: bandwidth.Limit(), Used: used, Periods: throttling.Periods, Throttled: throttling.Throttled}, true, err
}
