package cgroupfile

import (
	"errors"
	"fmt"

	"github.com/berth-project/berth/internal/engine/apply"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// Properties are Units that also know the values that systemd has on record for the groups of its units. systemd
// writes them again at every daemon-reload. A container runtime with the systemd driver sets its values there, too.
type Properties interface {
	// MayRecord reports, without asking systemd, whether systemd may have a knob of a group on record.
	MayRecord(group string, k cgroup.Knob) bool
	// Property returns the value on record for a knob of a group. recorded is false if there is none, or if a
	// container runtime does not set such a value. The error matches ErrNoUnits if systemd cannot be reached;
	// SetProperty does the same.
	Property(group string, k cgroup.Knob) (v cgroup.Value, recorded bool, err error)
	// SetProperty replaces the value on record until the next boot. systemd writes a quota to the file at once,
	// rounded to what it can store.
	SetProperty(group string, k cgroup.Knob, v cgroup.Value) error
}

// Origins are Units that know what systemd has on record for a list of a group (see Properties.Property). The driver
// asks before it changes the list. The error may also be apply.ErrDeferred.
type Origins interface {
	Origin(group string, k cgroup.Knob) (v cgroup.Value, recorded bool, err error)
}

// Askers are Units that know for which CPUs and memory nodes a unit asks itself.
type Askers interface {
	// Asked returns the CPUs or memory nodes that systemd gives the processes of a group when it starts them, within
	// those of the group. It returns the empty set if there are none. The errors are those of Properties.
	Asked(group string, k cgroup.Knob) (cpuset.Set, error)
}

// MayBegin implements apply.Beginner. A unit cannot start with a list that has none of the CPUs or memory nodes that it
// asks for: the kernel then refuses to give them to its processes (EINVAL of sched_setaffinity and set_mempolicy).
func (s *groups) MayBegin(t plan.Target, v plan.Value) error {
	askers, ok := s.units.(Askers)
	set, inherits, err := cgroup.Value(v).List()
	if !ok || inherits || err != nil {
		return err
	}
	asked, err := askers.Asked(t.Object, Knob(t))
	if err != nil {
		return fmt.Errorf("what the unit asks for: %w", err)
	}
	return CanBegin(Unit(t), Knob(t), asked, set)
}

// CanBegin returns ErrRefused if a unit that asks for CPUs or memory nodes itself cannot start with a list. The kernel
// gives its processes what is in both, and refuses them if nothing is.
func CanBegin(unit string, k cgroup.Knob, asked, list cpuset.Set) error {
	if asked.IsEmpty() || asked.Intersects(list) {
		return nil
	}
	property := Asks(k)
	return fmt.Errorf("%w: %s has %s=%s itself, and could not start with %s: allowed is a list that has some of %s, or a unit without %s=",
		apply.ErrRefused, unit, property, asked, list, asked, property)
}

// Asks returns the property with which a unit asks for CPUs or memory nodes itself (Askers).
func Asks(k cgroup.Knob) string {
	if k == cgroup.KnobMems {
		return "NUMAMask"
	}
	return "CPUAffinity"
}

// Original implements apply.Originator. A unit whose list was reset to inherit may have all CPUs or memory nodes by
// name. The kernel does not accept an empty list for a group with processes (ENOSPC of validate_change in
// kernel/cgroup/cpuset.c). systemd does not have that list; restoring it through systemd would add it to systemd's
// record.
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

// Recorded implements apply.Recorder. Without a quota systemd has no period either; then the period is that of like.
// If systemd cannot be reached, this call does not ask again: systemd may hang, and every question would wait for it.
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

// SetRecorded implements apply.Recorder.
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

// beforeRecord returns the bandwidth before systemd writes a quota, for keepBurst, and the identity of the group:
// another group may have its name afterwards. It returns nothing for a list.
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

// noteUnreached remembers an error if it says that systemd cannot be reached.
func (s *groups) noteUnreached(err error) {
	if errors.Is(err, ErrNoUnits) {
		s.unreached = err
	}
}
