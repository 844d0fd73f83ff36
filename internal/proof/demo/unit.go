package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	systemd "github.com/coreos/go-systemd/v22/dbus"
	"github.com/godbus/dbus/v5"

	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/proof/bench"
	"github.com/berth-project/berth/internal/proof/scratch"
)

// unitTimeout bounds each call to systemd.
const unitTimeout = 10 * time.Second

// errUnit reports that systemd did not start the requested unit.
var errUnit = errors.New("systemd refused the transient unit")

// scope is a transient scope that systemd delegated to this program. A scope lives as long as a process is in it, so a
// holder process stays in it. The holder is in its own leaf group, because cgroup v2 allows no processes in a group
// that enables controllers for its children. This file cannot be exercised on a host without systemd; keep it small.
type scope struct {
	holder *bench.Child
	leaf   *scratch.Group
	group  string
}

// needsUnit reports whether systemd owns the root of the cpu hierarchy. On v1 several programs may make groups side by
// side, and systemd does not delegate cpuset there, so only v2 needs a unit.
func needsUnit(host *cgroup.Host) bool {
	if info, err := os.Stat("/run/systemd/system"); err != nil || !info.IsDir() {
		return false
	}
	hierarchy, err := host.Hierarchy(cgroup.CPU)
	return err == nil && hierarchy.Version == 2
}

// startScope asks systemd over D-Bus for a delegated scope with a holder in it.
func startScope(ctx context.Context, host *cgroup.Host) (u *scope, err error) {
	u = &scope{}
	defer func() {
		if err != nil {
			err = errors.Join(err, u.stop())
		}
	}()
	if u.holder, err = bench.StartChild("holder", "load", "hold"); err != nil {
		return nil, fmt.Errorf("holder: %w", err)
	}
	if err := delegate(ctx, scratch.Name("demo")+".scope", u.holder.PID()); err != nil {
		return nil, err
	}
	if u.group, err = host.PathOf(u.holder.PID()); err != nil {
		return nil, fmt.Errorf("group of the scope: %w", err)
	}
	if u.leaf, err = scratch.Leaf(host, u.group, scratch.Name("holder")); err != nil {
		return nil, fmt.Errorf("holder: %w", err)
	}
	if err := u.leaf.Hold(u.holder.PID()); err != nil {
		return nil, fmt.Errorf("holder: %w", err)
	}
	return u, nil
}

// delegate makes the scope and waits until systemd reports that it has started.
func delegate(ctx context.Context, name string, pid int) error {
	ctx, cancel := context.WithTimeout(ctx, unitTimeout)
	defer cancel()
	bus, err := systemd.NewSystemdConnectionContext(ctx)
	if err != nil {
		return fmt.Errorf("reach systemd: %w", err)
	}
	defer bus.Close()
	done := make(chan string, 1)
	properties := []systemd.Property{
		systemd.PropDescription("Berth demonstration and benchmarks"),
		systemd.PropPids(uint32(pid)),
		{Name: "Delegate", Value: dbus.MakeVariant(true)},
	}
	if _, err := bus.StartTransientUnitContext(ctx, name, "fail", properties, done); err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	select {
	case result := <-done:
		if result != "done" {
			return fmt.Errorf("start %s: %s: %w", name, result, errUnit)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("start %s: %w", name, ctx.Err())
	}
}

// stop ends the holder and removes its leaf; systemd removes the scope when its last process is gone.
func (u *scope) stop() error {
	var errs []error
	if u.holder != nil {
		errs = append(errs, u.holder.Stop())
	}
	if u.leaf != nil {
		errs = append(errs, u.leaf.Close())
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("give the delegated unit up: %w", err)
	}
	return nil
}
