package systemd

import (
	"context"
	"errors"
	"fmt"
	"slices"

	sd "github.com/coreos/go-systemd/v22/dbus"
	"github.com/godbus/dbus/v5"

	"github.com/berth-project/berth/internal/engine/driver/cgroupfile"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// ownSlice is the description of slices that Berth started, by which it knows them.
const ownSlice = "CPUs of a host profile of Berth"

// ErrJob says that systemd did not start or stop a unit.
var ErrJob = errors.New("systemd did not do it")

// jobs is the part of a connection to systemd that starts and stops units.
type jobs interface {
	StartUnitContext(ctx context.Context, name, mode string, done chan<- string) (int, error)
	StartTransientUnitContext(ctx context.Context, name, mode string, properties []sd.Property, done chan<- string) (int, error)
	StopUnitContext(ctx context.Context, name, mode string, done chan<- string) (int, error)
}

// State implements cgroupfile.Slices. The units in a slice are those that require it, as systemd has every unit do that
// is in one. A unit that failed does not run.
func (s *Conn) State(name string) (cgroupfile.UnitState, error) {
	all, err := s.unit(name)
	if err != nil {
		return cgroupfile.UnitState{}, err
	}
	active, _ := all["ActiveState"].(string)
	file, _ := all["FragmentPath"].(string)
	transient, _ := all[propertyTransient].(bool)
	mask, _ := all[propertyOf(cgroup.KnobCPUs)].([]byte)
	units, _ := all["RequiredBy"].([]string)
	slices.Sort(units)
	at := cgroupfile.UnitState{Own: transient && all["Description"] == ownSlice, CPUs: setOf(mask), Units: units}
	at.Active = active != "" && active != "inactive" && active != "failed"
	at.Foreign = file != "" && all["LoadState"] == "loaded" && !at.Own
	return at, nil
}

// StartSlice implements cgroupfile.Slices with a transient unit. systemd keeps a stopped one as long as a unit names
// it, and makes no second of that name.
func (s *Conn) StartSlice(name string, state cgroupfile.UnitState, cpus cpuset.Set) error {
	return s.job("start", name, func(ctx context.Context, j jobs, done chan<- string) error {
		if state.Own {
			_, err := j.StartUnitContext(ctx, name, "fail", done)
			return err
		}
		_, err := j.StartTransientUnitContext(ctx, name, "fail", []sd.Property{
			sd.PropDescription(ownSlice),
			{Name: propertyOf(cgroup.KnobCPUs), Value: dbus.MakeVariant(bytesOf(cpus))},
		}, done)
		return err
	})
}

// StopSlice implements cgroupfile.Slices.
func (s *Conn) StopSlice(name string) error {
	return s.job("stop", name, func(ctx context.Context, j jobs, done chan<- string) error {
		_, err := j.StopUnitContext(ctx, name, "fail", done)
		return err
	})
}

// job has systemd start or stop a unit, and waits until it is done.
func (s *Conn) job(what, name string, ask func(context.Context, jobs, chan<- string) error) error {
	err := s.call(func(ctx context.Context, b bus) error {
		j, ok := b.(jobs)
		if !ok {
			return cgroupfile.ErrNoUnits
		}
		done := make(chan string, 1)
		if err := ask(ctx, j, done); err != nil {
			return err
		}
		select {
		case how := <-done:
			if how != "done" {
				return fmt.Errorf("%w: %s", ErrJob, how)
			}
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	if err != nil {
		return fmt.Errorf("%s slice %s: %w", what, name, err)
	}
	return nil
}
