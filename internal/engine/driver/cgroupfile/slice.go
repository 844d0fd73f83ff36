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
	// Slice returns the state of a slice. A slice that does not run, without a file, has the zero value.
	Slice(name string) (Slice, error)
	// StartSlice starts a slice with these CPUs, until the next boot, and returns when its group exists. A slice that
	// Berth stopped, and that a unit still names, may have other CPUs then.
	StartSlice(name string, cpus cpuset.Set) error
	// StopSlice stops a slice and all units in it, and returns when they are stopped.
	StopSlice(name string) error
}

// Slice is the state of a slice.
type Slice struct {
	Active bool
	// Own means that Berth started the slice, also if it is stopped and a unit still names it. Foreign that it has a unit file or that another program started it.
	Own, Foreign bool
	// CPUs are those that systemd gives the slice, empty for no list.
	CPUs cpuset.Set
	// Units are the units in the slice that are not stopped.
	Units []string
}

// ownSlice is the slice of a target, for one call.
type ownSlice struct {
	groups  *groups
	systemd Slices
	at      plan.Target
}

// slice returns the slice of a target. The error is ErrNoUnits without a systemd that starts slices.
func (s *groups) slice(t plan.Target) (ownSlice, error) {
	systemd, ok := s.units.(Slices)
	if !ok {
		return ownSlice{}, fmt.Errorf("slice %s: %w", t.Object, ErrNoUnits)
	}
	return ownSlice{s, systemd, t}, nil
}

// state returns what systemd has of the slice. Another program's slice is ErrForeign.
func (s ownSlice) state() (Slice, error) {
	state, err := s.systemd.Slice(s.at.Object)
	if err == nil && state.Foreign {
		err = fmt.Errorf("slice %s: %w", s.at.Object, ErrForeign)
	}
	return state, err
}

// read is groups.Read for a slice. The identity is the name: Berth knows its own slices otherwise.
func (s ownSlice) read() (plan.Value, plan.Identity, error) {
	state, err := s.state()
	if err != nil {
		return "", "", err
	}
	kind, err := s.kind()
	if err != nil {
		return "", "", err
	}
	id := plan.Identity(s.at.Object)
	if kind == cgroup.Member && state.CPUs.IsEmpty() && (!state.Own || !state.Active) {
		return cgroup.NoSlice, id, nil
	}
	return plan.Value(cgroup.SliceText(string(kind), state.CPUs.String())), id, nil
}

// kind returns the kind of partition of the group, which is a member if it does not exist.
func (s ownSlice) kind() (cgroup.Value, error) {
	g, err := s.groups.get(s.at.Object)
	kind := cgroup.Member
	if err == nil {
		kind, err = read(g, s.at)
	}
	if hasNoFile(err) {
		s.groups.drop(s.at.Object)
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

// write is groups.Write for a slice. Each state between two of its writes is a value that belongs to the change
// (mangledSlice), so that an undo can begin anywhere.
func (s ownSlice) write(to plan.Value) (plan.Value, error) {
	state, err := s.state()
	if err != nil {
		return "", err
	}
	if to == cgroup.NoSlice {
		err = s.end(state)
	} else {
		err = s.begin(state, to)
	}
	v, _, unread := s.read()
	if err = cmp.Or(err, unread); err == nil && v != to {
		err = fmt.Errorf("wrote %s, slice %s has %s: %w", to, s.at.Object, v, apply.ErrNotEffective)
	}
	return v, err
}

// begin starts the slice, or gives its CPUs to a slice that runs, and makes it a partition.
func (s ownSlice) begin(state Slice, to plan.Value) error {
	kind, list := partsOf(to)
	cpus, err := cpuset.Parse(list)
	if err != nil || cpus.IsEmpty() {
		return fmt.Errorf("slice %s: value %q: %w", s.at.Object, to, cgroup.ErrMalformed)
	}
	if !state.Active {
		s.groups.drop(s.at.Object) // a group that was left over
		err = s.systemd.StartSlice(s.at.Object, cpus)
		s.groups.call.Written(s.at) // also after an error: systemd may start it later
		if err == nil {
			state, err = s.state()
		}
	}
	if err == nil && state.CPUs != cpus {
		if err = s.endPartition(); err == nil { // a write to its list could end it in another way
			err = s.setCPUs(cgroup.ListValue(cpus))
		}
	}
	if err != nil {
		return err
	}
	return s.setKind(kind)
}

// setCPUs has systemd give the slice other CPUs.
func (s ownSlice) setCPUs(v cgroup.Value) error {
	err := s.groups.setList(s.at.Object, cgroup.KnobCPUs, v)
	if err == nil {
		s.groups.call.Written(s.at)
	}
	return err
}

// setKind makes the group a partition, or ends its partition.
func (s ownSlice) setKind(kind cgroup.Value) error {
	g, err := s.groups.get(s.at.Object)
	if err != nil {
		return err
	}
	_, err = s.groups.writePartition(g, plan.Change{Setting: plan.Setting{Target: s.at, Value: plan.Value(kind)}})
	return err
}

// endPartition ends the partition, and gives the threads of the host their CPUs back. It does both again after a crash
// between the two. A group without a partition's file has no partition.
func (s ownSlice) endPartition() error {
	g, err := s.groups.get(s.at.Object)
	if err == nil {
		_, err = g.Read(cgroup.KnobPartition)
	}
	if hasNoFile(err) {
		return nil
	}
	if err != nil {
		return err
	}
	return s.setKind(cgroup.Member)
}

// end ends the partition. It then stops a slice of Berth's, or removes the CPUs from a slice that systemd started for its
// units. A slice of Berth's with units stays, without its partition: ErrOccupied.
func (s ownSlice) end(state Slice) error {
	err := s.endPartition()
	if err == nil && state.Own && state.Active {
		if err = s.stop(state); err == nil {
			state, err = s.state()
		}
	}
	if err != nil || state.CPUs.IsEmpty() {
		return err
	}
	if err := s.emptyList(); err != nil {
		return err
	}
	return s.setCPUs(cgroup.Inherit)
}

// stop stops a slice that nothing runs in.
func (s ownSlice) stop(state Slice) error {
	names := strings.Join(state.Units, ", ")
	if g, err := s.groups.get(s.at.Object); names == "" && err == nil && cgroup.Populated(g) {
		names = "processes of no unit"
	}
	if names != "" {
		return fmt.Errorf("slice %s stays, without its partition (%w): %w %s: stop them, then roll back again", s.at.Object, apply.ErrPartly, ErrOccupied, names)
	}
	err := s.systemd.StopSlice(s.at.Object)
	s.groups.call.Written(s.at)
	s.groups.drop(s.at.Object)
	return err
}

// emptyList removes the CPUs from the file, since systemd leaves them there when it forgets a list. It does so before
// systemd forgets: after a crash between the two, systemd's list shows that the slice is not restored.
func (s ownSlice) emptyList() error {
	g, err := s.groups.get(s.at.Object)
	if err == nil {
		_, err = putOrAll(g, cgroup.KnobCPUs, cgroup.Inherit)
	}
	if hasNoFile(err) || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	s.groups.call.Written(s.at)
	return err
}
