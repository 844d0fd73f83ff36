package quota

import (
	"slices"
	"time"

	"github.com/berth-project/berth/internal/capability/burst/follower"
	"github.com/berth-project/berth/internal/linux/cgroup"
)

// checkNested finds the copies of m's limit below its group, such as crun's group "container", which follow the
// container's own group. Other limits below belong to programs in the container, and stay.
func (q *Groups) checkNested(m *Group, now time.Duration) {
	paths, err := m.Group.Children(cgroup.CPU)
	if err != nil {
		return // the group is gone: the next check reports it
	}
	for path, f := range m.nested {
		if !slices.Contains(paths, path) || !f.CanFollow(now) {
			f.Close()
			delete(m.nested, path)
		}
	}
	for _, path := range paths {
		f := m.nested[path]
		if f == nil {
			f = follower.Open(q.opts.Host, q.quotas, path, now)
		}
		switch {
		case f == nil:
		case q.set.byPath[path] != nil || !m.copiedTo(f):
			f.Close()
			delete(m.nested, path)
		default:
			m.nested[path] = f
		}
	}
}

// copiedTo reports whether the limit of a group below m's equals m's, except for systemd's rounding.
func (m *Group) copiedTo(f *follower.Follower) bool {
	return cgroup.Grants(m.Max.Original().Rate(), f.Max.Original()) || cgroup.Grants(f.Own(), m.Max.Original())
}

// keepsBelow reports whether m still asks for the value of a knob of the copies.
func (m *Group) keepsBelow(k cgroup.Knob) bool {
	return ofKnob(k, m.law.Facts.LimitQuota > 0 && m.law.Raised(), m.law.Saves())
}
