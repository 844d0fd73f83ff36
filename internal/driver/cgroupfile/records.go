package cgroupfile

import (
	"errors"
	"fmt"

	"github.com/berth-project/berth/internal/cgroup"
	"github.com/berth-project/berth/internal/hostfs"
	"github.com/berth-project/berth/internal/plan"
)

// Properties are Units that also know what systemd itself has on record for the groups of
// its units, and writes again at every daemon-reload. A container runtime with the systemd
// driver puts its answers there, too.
type Properties interface {
	// MayRecord says, without asking systemd, whether it may have a knob of a group on
	// record.
	MayRecord(group string, k cgroup.Knob) bool
	// Property returns the value on record for a knob of a group. It says false where
	// there is none, or none that a container runtime puts there. The error matches
	// ErrNoUnits when systemd cannot be reached, as that of SetProperty does.
	Property(group string, k cgroup.Knob) (v cgroup.Value, recorded bool, err error)
	// SetProperty replaces it until the next boot. systemd writes a quota to the file at
	// once, rounded to what it can keep.
	SetProperty(group string, k cgroup.Knob, v cgroup.Value) error
}

// Origins are Units that are asked, before a list of a group is changed, what systemd has on record
// for it: see Properties.Property. The error may be apply.ErrDeferred as well.
type Origins interface {
	Origin(group string, k cgroup.Knob) (v cgroup.Value, recorded bool, err error)
}

// Original is apply.Originator. A unit that was to inherit again has all CPUs or memory nodes by name,
// since the kernel takes no empty list from a group with processes (ENOSPC of validate_change in
// kernel/cgroup/cpuset.c). That is no list of systemd's; put back through systemd it would become one.
func (s *groups) Original(t plan.Target, found plan.Value) (plan.Value, error) {
	origins, ok := s.units.(Origins)
	if k := Knob(t); !ok || t.Driver != UnitDriver || k.Controller() != cgroup.CPUSet {
		return found, nil
	}
	g, err := s.get(t.Object)
	if err != nil {
		return found, classify(err)
	}
	if !cgroup.IsUnlimited(g, Knob(t), cgroup.Value(found)) {
		return found, nil
	}
	switch v, recorded, err := origins.Origin(t.Object, Knob(t)); {
	case err != nil:
		return found, fmt.Errorf("what systemd has on record: %w", err)
	case recorded && v == cgroup.Inherit:
		return plan.Value(cgroup.Inherit), nil
	}
	return found, nil
}

// Recorded is apply.Recorder. Without a quota systemd knows no period either: it is that
// of like. A systemd that cannot be reached is not asked again in the same call: it may be one
// that hangs, and every question would wait for it.
func (s *groups) Recorded(t plan.Target, like plan.Value) (plan.Value, bool, error) {
	properties, ok := s.units.(Properties)
	if !ok || !properties.MayRecord(t.Object, Knob(t)) {
		return "", false, nil
	}
	if s.unreached != nil {
		return "", false, s.unreached
	}
	v, recorded, err := properties.Property(t.Object, Knob(t))
	if err != nil {
		s.noteUnreached(err)
		return "", false, fmt.Errorf("what systemd has on record: %w", err)
	}
	n, _, err := v.Pair()
	if _, period, bad := cgroup.Value(like).Pair(); err == nil && bad == nil && n < 0 {
		v = cgroup.MaxValue(n, period)
	}
	return plan.Value(v), recorded, nil
}

// SetRecorded is apply.Recorder.
func (s *groups) SetRecorded(t plan.Target, v plan.Value) (stands bool, err error) {
	properties, ok := s.units.(Properties)
	if !ok {
		return false, fmt.Errorf("%s: %w", t, ErrNoUnits)
	}
	before, id, err := s.beforeRecord(t)
	if err != nil {
		return false, classify(err)
	}
	if err := properties.SetProperty(t.Object, Knob(t), cgroup.Value(v)); err != nil {
		s.noteUnreached(err)
		return false, fmt.Errorf("take it back from systemd: %w", err)
	}
	s.drop(t.Object) // systemd may have switched the controller, and its files with it
	g, err := s.get(t.Object)
	if err != nil {
		return false, classify(err)
	}
	if now, err := g.ID(cgroup.CPU); before.Burst > 0 && err == nil && now == id {
		if err := s.keepBurst(g, before); err != nil {
			return false, classify(err)
		}
	}
	has, err := g.Read(Knob(t))
	if errors.Is(err, cgroup.ErrNoController) {
		return false, nil
	}
	return has != cgroup.Inherit, classify(err)
}

// beforeRecord returns what stands before systemd writes a quota, for keepBurst, and the
// identity of the group: another one may have its name afterwards. It returns nothing for a
// list.
func (s *groups) beforeRecord(t plan.Target) (before cgroup.Bandwidth, id hostfs.ID, err error) {
	if Knob(t) != cgroup.KnobMax {
		return before, id, nil
	}
	g, err := s.get(t.Object)
	if err != nil {
		return before, id, err
	}
	if id, err = g.ID(cgroup.CPU); err != nil {
		return before, id, err
	}
	before, err = burstAtStake(g, cgroup.KnobMax)
	return before, id, err
}

// noteUnreached keeps an error that says that systemd cannot be reached.
func (s *groups) noteUnreached(err error) {
	if errors.Is(err, ErrNoUnits) {
		s.unreached = err
	}
}
