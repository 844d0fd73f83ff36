package cgroupfile

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/berth-project/berth/internal/engine/apply"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// SliceTarget returns the target of a slice at the top of the hierarchy, as a whole: that it runs, its CPUs and its
// partition. It has the place of the group's partition. Its values are cgroup.NoSlice and those of cgroup.SliceText.
func SliceTarget(slice string) plan.Target {
	return plan.Target{Driver: SliceDriver, Object: slice, Knob: string(cgroup.KnobPartition)}
}

// IsSlice reports whether a target is a slice as a whole.
func IsSlice(t plan.Target) bool { return t.Driver == SliceDriver }

// Slices are Units that can also start and stop slices. The errors match ErrNoUnits if systemd cannot be reached.
type Slices interface {
	// State returns the state of a slice, or of a unit in one. A unit that does not run, without a file, has the zero
	// value.
	State(unit string) (UnitState, error)
	// StartSlice starts a slice that has this state, until the next boot, and returns when its group exists. A slice of
	// Berth's own (UnitState.Own) keeps its CPUs; any other gets these, unless a drop-in has others.
	StartSlice(name string, state UnitState, cpus cpuset.Set) error
	// StopSlice stops a slice and all units in it, and returns when they are stopped.
	StopSlice(name string) error
}

// UnitState is the state of a slice, or of a unit in one.
type UnitState struct {
	Active bool
	// Own means that Berth started the slice, also if it is stopped and a unit still names it. Foreign means that it has
	// a unit file, or that another program started it.
	Own, Foreign bool
	// CPUs are those that systemd gives the slice, empty for no list.
	CPUs cpuset.Set
	// Units are the units in the slice, also those that are stopped.
	Units []string
}

// ownSlices is the driver of slices as a whole. Each state between two writes of a change is a value that belongs to
// the change (mangledSlice), so that an undo can begin anywhere.
type ownSlices struct {
	groups  *groups
	systemd Slices // nil without a systemd that starts slices
}

// Close closes the groups of slices.
func (s ownSlices) Close() error { return s.groups.Close() }

// Note implements apply.SideEffects, as for the partition of any group.
func (s ownSlices) Note(t plan.Target) error { return s.groups.Note(t) }

// GiveBack implements apply.SideEffects.
func (s ownSlices) GiveBack(t plan.Target) { s.groups.GiveBack(t) }

// Locate implements apply.Locator with the file of the partition.
func (s ownSlices) Locate(t plan.Target, v plan.Value) string { return s.groups.Locate(t, v) }

// Encode implements apply.Encoder.
func (s ownSlices) Encode(t plan.Target, v plan.Value) (text string, takes bool) {
	return s.groups.Encode(t, v)
}

func (s ownSlices) state(t plan.Target) (UnitState, error) { return StateOf(s.systemd, t.Object) }

// StateOf returns what systemd has of a slice that Berth may start. Another program's slice is ErrForeign. Without a
// systemd, nil, the error is ErrNoUnits.
func StateOf(systemd Slices, slice string) (UnitState, error) {
	if systemd == nil {
		return UnitState{}, fmt.Errorf("slice %s: %w", slice, ErrNoUnits)
	}
	state, err := systemd.State(slice)
	if err == nil && state.Foreign {
		err = fmt.Errorf("slice %s: %w", slice, ErrForeign)
	}
	return state, err
}

// Read returns the value of a slice. The identity is the name: Berth knows its own slices otherwise.
func (s ownSlices) Read(t plan.Target) (plan.Value, plan.Identity, error) {
	state, err := s.state(t)
	if err != nil {
		return "", "", err
	}
	kind, err := s.kind(t)
	if err != nil {
		return "", "", err
	}
	id := plan.Identity(t.Object)
	if kind == cgroup.Member && state.CPUs.IsEmpty() && (!state.Own || !state.Active) {
		return cgroup.NoSlice, id, nil
	}
	return plan.Value(cgroup.SliceText(string(kind), state.CPUs.String())), id, nil
}

// kind returns the kind of partition of the group, which is a member if it does not exist.
func (s ownSlices) kind(t plan.Target) (cgroup.Value, error) {
	g, err := s.groups.get(t.Object)
	kind := cgroup.Member
	if err == nil {
		kind, err = read(g, t)
	}
	if hasNoFile(err) {
		s.groups.drop(t.Object)
		return cgroup.Member, nil
	}
	return kind, err
}

// hasNoFile reports whether an error means that a group, or its file of the cpuset controller, does not exist.
func hasNoFile(err error) bool {
	return errors.Is(err, cgroup.ErrNoGroup) || errors.Is(err, hostfs.ErrGone) || errors.Is(err, cgroup.ErrNoController)
}

// partsOf divides the value of a slice.
func partsOf(v plan.Value) (kind cgroup.Value, cpus string) {
	i := strings.LastIndexByte(string(v), ' ')
	if i < 0 {
		return cgroup.Value(v), ""
	}
	return cgroup.Value(v[:i]), string(v[i+1:])
}

// mangledSlice reports whether v is a state between two writes of a change to or from a recorded value, or the kernel's
// answer that it cannot make the partition. A slice that was started again may have no CPUs yet.
func mangledSlice(_ plan.Target, v, recorded plan.Value) bool {
	kind, cpus := partsOf(v)
	was, same := partsOf(recorded)
	_, invalid := kind.Invalid()
	if kind == cgroup.Member && cpus == "" {
		return true
	}
	return cpus == same && (kind == cgroup.Member || invalid && strings.HasPrefix(string(kind), string(was)+" "))
}

// Write starts a slice and makes it a partition, or ends both.
func (s ownSlices) Write(c plan.Change) (plan.Value, error) {
	state, err := s.state(c.Target)
	if err != nil {
		return "", err
	}
	if c.Value == cgroup.NoSlice {
		err = s.end(c.Target, state)
	} else {
		err = s.begin(c, state)
	}
	v, _, unread := s.Read(c.Target)
	if err = cmp.Or(err, unread); err == nil && v != c.Value {
		err = fmt.Errorf("wrote %s, slice %s has %s: %w", c.Value, c.Object, v, apply.ErrNotEffective)
	}
	return v, err
}

// begin starts the slice, or gives its CPUs to a slice that runs, and makes it a partition.
func (s ownSlices) begin(c plan.Change, state UnitState) error {
	kind, list := partsOf(c.Value)
	cpus, err := cpuset.Parse(list)
	if err != nil || cpus.IsEmpty() {
		return fmt.Errorf("slice %s: value %q: %w", c.Object, c.Value, cgroup.ErrMalformed)
	}
	if !state.Active {
		s.groups.drop(c.Object) // a group that was left over
		err = s.systemd.StartSlice(c.Object, state, cpus)
		s.groups.call.Written(c.Target) // also after an error: systemd may start it later
		if err == nil && !state.Own {   // a drop-in comes after the list of the start
			state, err = s.state(c.Target)
		}
	}
	if err == nil && state.CPUs != cpus {
		if err = s.endPartition(c.Target); err == nil { // a write to its list could end it in another way
			err = s.setCPUs(c.Target, cgroup.ListValue(cpus))
		}
	}
	if err != nil {
		return err
	}
	return s.setKind(c.Target, kind)
}

// setCPUs has systemd give the slice other CPUs.
func (s ownSlices) setCPUs(t plan.Target, v cgroup.Value) error {
	err := s.groups.setList(t.Object, cgroup.KnobCPUs, v)
	if err == nil {
		s.groups.call.Written(t)
	}
	return err
}

// setKind makes the group a partition, or ends its partition.
func (s ownSlices) setKind(t plan.Target, kind cgroup.Value) error {
	g, err := s.groups.get(t.Object)
	if err != nil {
		return err
	}
	_, err = s.groups.writePartition(g, plan.Change{Setting: plan.Setting{Target: t, Value: plan.Value(kind)}})
	return err
}

// endPartition ends the partition, and gives the threads of the host their CPUs back. It does both again after a crash
// between the two. A group without a partition's file has no partition.
func (s ownSlices) endPartition(t plan.Target) error {
	g, err := s.groups.get(t.Object)
	if err == nil {
		_, err = g.Read(cgroup.KnobPartition)
	}
	if hasNoFile(err) {
		return nil
	}
	if err != nil {
		return err
	}
	return s.setKind(t, cgroup.Member)
}

// end ends the partition. It then stops a slice of Berth's, or removes the CPUs from a slice that systemd started for
// its units. A slice of Berth's with units stays, without its partition: ErrOccupied.
func (s ownSlices) end(t plan.Target, state UnitState) error {
	err := s.endPartition(t)
	if err == nil && state.Own && state.Active {
		if err = s.stop(t, state); err == nil {
			state, err = s.state(t)
		}
	}
	if err != nil || state.CPUs.IsEmpty() {
		return err
	}
	if err := s.emptyList(t); err != nil {
		return err
	}
	return s.setCPUs(t, cgroup.Inherit)
}

// stop stops a slice that nothing runs in.
func (s ownSlices) stop(t plan.Target, state UnitState) error {
	if err := s.mayStop(t, state); err != nil {
		return err
	}
	err := s.systemd.StopSlice(t.Object)
	s.groups.call.Written(t)
	s.groups.drop(t.Object)
	return err
}

// Forecast implements apply.Forecaster: the undo of a slice of Berth's with a unit in it is ErrOccupied.
func (s ownSlices) Forecast(t plan.Target, original plan.Value) error {
	state, err := s.state(t)
	if err != nil || original != cgroup.NoSlice || !state.Own || !state.Active {
		return err
	}
	return s.mayStop(t, state)
}

// mayStop returns ErrOccupied if something runs in a slice.
func (s ownSlices) mayStop(t plan.Target, state UnitState) error {
	var active []string
	for _, name := range state.Units {
		unit, err := s.systemd.State(name)
		if err != nil {
			return err
		}
		if unit.Active {
			active = append(active, name)
		}
	}
	names := strings.Join(active, ", ")
	if g, err := s.groups.get(t.Object); names == "" && err == nil && cgroup.Populated(g) {
		names = "processes of no unit"
	}
	if names == "" {
		return nil
	}
	return fmt.Errorf("slice %s stays, without its partition (%w): %w %s: stop them, then roll back again", t.Object, apply.ErrPartly, ErrOccupied, names)
}

// emptyList removes the CPUs from the file, since systemd leaves them there when it forgets a list. It does so before
// systemd forgets: after a crash between the two, systemd's list shows that the slice is not restored.
func (s ownSlices) emptyList(t plan.Target) error {
	g, err := s.groups.get(t.Object)
	if err == nil {
		_, err = putOrAll(g, cgroup.KnobCPUs, cgroup.Inherit)
	}
	if hasNoFile(err) || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	s.groups.call.Written(t)
	return err
}
