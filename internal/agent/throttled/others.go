// Package throttled reads how much quotas throttle workloads that did not ask for burst, while somebody views a host.
// It also reads the services of the host that are no workloads. It shows whom burst would help, and writes nothing.
package throttled

import (
	"errors"
	"path"
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

// services is the group of the host's services, of which at most mostServices are read.
const (
	services     = "system.slice"
	mostServices = 512
)

// Others compares readings of groups that no capability checks. The zero value is ready for use; it is not safe for
// concurrent use.
type Others struct {
	at   time.Duration
	read map[string]view.Counted // by group, nil before the first reading
	said map[string]*view.Throttling
}

// Look returns how much quotas throttled the containers that burst does not check, by name, and reads their files if
// that is due. For a service that is no workload the name is its group; it is there only if its quota throttled it. Look
// only reads.
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
	known := make(map[string]bool, len(all))
	for i := range all {
		c := &all[i]
		known[c.Group] = true
		if looked[c.Name] || c.Group == "" {
			continue
		}
		t, err := o.compare(host, c.Group, before, passed)
		if errs = append(errs, err); t != nil {
			o.said[c.Name] = t
		}
	}
	errs = append(errs, o.services(host, known, before, passed))
	return o.said, errors.Join(errs...)
}

// services compares the services of the host that are not known.
func (o *Others) services(host *cgroup.Host, known map[string]bool, before map[string]view.Counted, passed time.Duration) error {
	groups, err := servicesOf(host)
	errs := []error{err}
	for _, group := range groups {
		if known[group] {
			continue
		}
		t, err := o.compare(host, group, before, passed)
		if errs = append(errs, err); t != nil && t.Throttled > 0 {
			o.said[group] = t
		}
	}
	return errors.Join(errs...)
}

// compare reads a group and compares it with its reading before. It returns nil if there is nothing to compare: the
// group ended, nothing can throttle it, or it is new.
func (o *Others) compare(host *cgroup.Host, group string, before map[string]view.Counted, passed time.Duration) (*view.Throttling, error) {
	counted, limited, err := countedOf(host, group)
	switch {
	case missing(err), err == nil && !limited:
		return nil, nil //nolint:nilnil // see above
	case err != nil:
		return nil, err
	}
	o.read[group] = counted
	was, known := before[group]
	if !known {
		return nil, nil //nolint:nilnil // see above
	}
	return view.ThrottlingBetween(was, counted, passed), nil
}

// servicesOf returns the groups of the host's services, none on a host without systemd. systemd puts the instances of a
// template one level deeper, into a slice.
func servicesOf(host *cgroup.Host) ([]string, error) {
	groups, err := below(host, services)
	errs := []error{err}
	for _, group := range groups {
		if path.Ext(group) != ".slice" || len(groups) >= mostServices {
			continue
		}
		instances, err := below(host, group)
		groups, errs = append(groups, instances...), append(errs, err)
	}
	return groups[:min(len(groups), mostServices)], errors.Join(errs...)
}

// below returns the groups right below a group, none if it is not there.
func below(host *cgroup.Host, group string) ([]string, error) {
	above, err := host.Group(group, cgroup.CPU)
	if missing(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer above.Close()
	return above.Children(cgroup.CPU)
}

// missing reports whether a group or a file of it is not there. A group without the CPU controller has no quota either:
// what throttles it is the quota of a group above, which counts that itself.
func missing(err error) bool {
	return errors.Is(err, cgroup.ErrNoGroup) || errors.Is(err, cgroup.ErrNoKnob) || errors.Is(err, cgroup.ErrNoController)
}

// countedOf reads a group and closes it again. limited says that the group has a quota.
func countedOf(host *cgroup.Host, name string) (counted view.Counted, limited bool, err error) {
	group, err := host.Group(name, cgroup.CPU, cgroup.CPUAcct)
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
