package quota

import (
	"cmp"
	"path"
	"time"

	"github.com/berth-project/berth/internal/capability/burst"
	"github.com/berth-project/berth/internal/capability/burst/credit"
	"github.com/berth-project/berth/internal/capability/burst/follower"
	"github.com/berth-project/berth/internal/engine/driver/cgroupfile"
	"github.com/berth-project/berth/internal/engine/journal"
	"github.com/berth-project/berth/internal/node/roster"
	"github.com/berth-project/berth/internal/value/unit"
)

// groupSet has the workload groups, the groups that follow them, and the groups above.
type groupSet struct {
	byEntry map[*roster.Entry]*Group
	order   []*Group // by name
	due     []*Group // of the last Due
	gathering
	byPath map[string]*Group
	// pods are the groups of pods that follow their containers, by path.
	pods  map[string]*follower.Pod
	above *roster.Above
	// unlimited are the groups without a quota because they have exclusive CPUs: burst desires nothing there. Groups in
	// reserved have that many exclusive CPUs and retain their quota.
	unlimited map[string]bool
	reserved  map[string]int
	// apart measures the use of groups outside the shared pool.
	apart roster.Apart
}

// Shared is how far apart two checks may be due and still share one wake-up. An early check costs nothing; a wake-up
// does.
const Shared = 10 * time.Millisecond

// gathering is when quiet groups are checked together: with the agent's work of once a second, which wakes it anyway.
type gathering struct {
	// second is the last work of once a second, gathered the last one with which all quiet groups were checked.
	second, gathered time.Duration
}

// until returns up to when quiet groups that are due later are checked now. News of a cluster make more work of once a
// second, with which they are not checked.
func (g *gathering) until(now time.Duration) time.Duration {
	if now != g.second || now < g.gathered+credit.MaxLook-Shared {
		return now + Shared
	}
	g.gathered = now
	return now + credit.MaxLook
}

// findDue finds the groups to check now, and returns their number.
func (s *groupSet) findDue(now time.Duration) int {
	s.due = s.due[:0]
	quiet := s.until(now)
	for _, m := range s.order {
		until := now + Shared
		if m.law.Decision.Next == credit.MaxLook {
			until = quiet
		}
		if m.state == burst.StateActive && m.due <= until {
			s.due = append(s.due, m)
		}
	}
	return len(s.due)
}

// next returns when the next check is due, at most the given time.
func (s *groupSet) next(most time.Duration) time.Duration {
	for _, m := range s.order {
		if m.state == burst.StateActive {
			most = min(most, m.due)
		}
	}
	return most
}

// asks reports whether a workload group still asks for the value of a journal entry.
func (s *groupSet) asks(e journal.Entry) bool {
	group, k := e.Target.Object, cgroupfile.Knob(e.Target)
	if p := s.pods[group]; p != nil && p.Is(e) {
		return ofKnob(k, p.Raised(), p.Saves())
	}
	if above := s.byPath[path.Dir(group)]; above != nil && above.state == burst.StateActive {
		if f := above.nested[group]; f != nil && f.Is(e) {
			return above.keepsBelow(k)
		}
	}
	m := s.byPath[group]
	return m != nil && m.Is(e) && m.wants(k) && (m.state == burst.StateActive || m.state == burst.StateDrift)
}

// throttles says why the group of m's pod throttles what m saved, "" if it does not.
func (s *groupSet) throttles(m *Group) string {
	p := s.pods[m.workload.Pod.Group]
	if p == nil || p.LeftBurst() == "" || !m.law.Saves() {
		return ""
	}
	return p.LeftBurst() + ", and the pod's group throttles what the container saved"
}

// bounds returns the limits that the groups above leave to each active group.
func (s *groupSet) bounds() *burst.Bounds {
	host := burst.Host{Children: s.above.Children, Found: s.above.LimitBelow, Quota: func(path string) unit.CPUs {
		if s.pods[path] != nil {
			return 0 // it rises with the groups below
		}
		return s.above.Limit(path)
	}}
	return burst.BoundsOf(host, s.members(true), func() []burst.Member { return s.members(false) })
}

// members returns the workloads with a known group: those that burst, or the others.
func (s *groupSet) members(active bool) (all []burst.Member) {
	for _, m := range s.order {
		if m.Group != nil && (m.state == burst.StateActive) == active {
			all = append(all, burst.Member{Path: m.Group.Path(), Limit: s.limitOf(m), Bursts: active})
		}
	}
	return all
}

// limitOf returns the limit of a workload's group, 0 for none.
func (s *groupSet) limitOf(m *Group) unit.CPUs {
	if m.state == burst.StateActive || s.unlimited[m.Group.Path()] {
		return cmp.Or(m.law.Claim(), m.workload.Limit)
	}
	return s.above.Limit(m.Group.Path())
}
