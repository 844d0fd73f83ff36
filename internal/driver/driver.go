// Package driver lists the kinds of target that Berth can write. One more is a room
// below this one, and a line in each of the two functions here.
//
//	cgroupfile  files of control groups, and lists of systemd's units
//	hostfile    files below /proc/sys and /sys
//
// What a kind says of its values goes to plan and journal, the whole of it to apply;
// none of those knows any kind by name.
package driver

import (
	"maps"

	"github.com/berth-project/berth/internal/apply"
	"github.com/berth-project/berth/internal/cgroup"
	"github.com/berth-project/berth/internal/driver/cgroupfile"
	"github.com/berth-project/berth/internal/driver/hostfile"
	"github.com/berth-project/berth/internal/plan"
)

// Kinds returns every kind of target of a host. Without units, nil, what systemd has
// to write is refused.
func Kinds(host *cgroup.Host, units cgroupfile.Units) apply.Kinds {
	kinds := cgroupfile.Kinds(host, units)
	maps.Copy(kinds, hostfile.Kinds(host.Root()))
	return kinds
}

// Values returns what the same kinds say of their values without a host, which is
// what the journal needs.
func Values() plan.Kinds {
	values := cgroupfile.Values()
	maps.Copy(values, hostfile.Values())
	return values
}
