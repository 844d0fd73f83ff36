package quota

import (
	"slices"
	"time"

	"github.com/berth-project/berth/internal/cgroup"
	"github.com/berth-project/berth/internal/follower"
	"github.com/berth-project/berth/internal/reconcile"
	"github.com/berth-project/berth/internal/unit"
)

// checkNested finds the copies of m's limit below its group, as crun makes one in its
// group "container", and brings them to where the container's own group stands. Other
// limits below are those of whoever runs in the container, and stay.
func (q *Groups) checkNested(m *Group, now time.Duration) {
	paths, err := m.Group.Children(cgroup.CPU)
	if err != nil {
		return // the group is gone: the next look says so
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
			f = follower.Open(q.opts.Host, q.writer, path, now)
		}
		switch {
		case f == nil:
		case q.byPath[path] != nil || !m.copiedTo(f):
			f.Close()
			delete(m.nested, path)
		default:
			m.nested[path] = f
			q.writer.Set(now, m.wantedBelow(f, m.law.Facts.Standing)...)
		}
	}
}

// copiedTo says whether the limit of a group below m's is that of m's, give or take
// what systemd rounds.
func (m *Group) copiedTo(f *follower.Follower) bool {
	return cgroup.Grants(m.Max.Original().Rate(), f.Max.Original()) || cgroup.Grants(f.Own(), m.Max.Original())
}

// wantedBelow returns what a copy of m's limit must have once m's quota is this much.
func (m *Group) wantedBelow(f *follower.Follower, quota unit.Micros) []reconcile.Move {
	return f.Moves(m.law.Below(f.Own(), quota))
}

// keepsBelow says whether m still asks for what stands in a knob of the copies.
func (m *Group) keepsBelow(k cgroup.Knob) bool {
	return ofKnob(k, m.law.Facts.LimitQuota > 0 && m.law.Raised(), m.law.Saves())
}
