package quota

import (
	"slices"
	"time"

	"github.com/berth-project/berth/internal/cgroup"
	"github.com/berth-project/berth/internal/journal"
	"github.com/berth-project/berth/internal/reconcile"
	"github.com/berth-project/berth/internal/unit"
)

// checkNested finds the copies of m's limit below its group, as crun makes one in its
// group "container", and brings them to where the container's own group stands. Other
// limits below are those of whoever runs in the container, and stay.
func (q *Groups) checkNested(m *Group, now time.Duration) {
	paths, err := m.group.Children(cgroup.CPU)
	if err != nil {
		return // the group is gone: the next look says so
	}
	before := m.nested
	m.nested = nil
	for _, path := range paths {
		var f *follower
		if i := slices.IndexFunc(before, func(f *follower) bool { return f.group.Path() == path }); i >= 0 && q.followers.refollow(before[i], now) {
			f = before[i]
			before = slices.Delete(before, i, i+1)
		} else {
			f = q.followers.follow(path, now)
		}
		switch {
		case f == nil:
		case q.byPath[path] != nil || !m.copiedTo(f):
			f.close()
		default:
			m.nested = append(m.nested, f)
		}
	}
	for _, f := range before {
		f.close()
	}
	for _, f := range m.nested {
		q.writer.Set(now, m.wantedBelow(f, m.law.Facts.Standing)...)
	}
}

// copiedTo says whether the limit of a group below m's is that of m's, give or take
// what systemd rounds.
func (m *Group) copiedTo(f *follower) bool {
	return cgroup.Grants(rate(m.max.Original()), f.max.Original()) || cgroup.Grants(rate(f.max.Original()), m.max.Original())
}

// rate returns the rate of a quota, 0 where there is none.
func rate(v cgroup.Value) unit.CPUs {
	quota, period, err := v.Pair()
	if err != nil || quota < 0 {
		return 0
	}
	return unit.Rate(quota, period)
}

// wantedBelow returns what a copy of m's limit must have once m's quota is this much.
func (m *Group) wantedBelow(f *follower, quota unit.Micros) []reconcile.Move {
	return f.moves(m.law.Below(rate(f.max.Original()), quota))
}

// follows says whether an entry is about a copy of m's limit.
func (m *Group) follows(e journal.Entry) bool {
	return slices.ContainsFunc(m.nested, func(f *follower) bool { return f.is(e) })
}

// keepsBelow says whether m still asks for what stands in a knob of the copies.
func (m *Group) keepsBelow(k cgroup.Knob) bool {
	if k == cgroup.KnobBurst {
		return m.law.Saves()
	}
	return m.law.Facts.LimitQuota > 0 && m.law.Raised()
}
