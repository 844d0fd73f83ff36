// Package scratch makes control groups that belong to Berth itself, for the
// demonstration, the benchmarks and the tests against the real kernel, and
// removes them without a trace.
package scratch

import (
	"errors"

	"github.com/berth-project/berth/internal/cgroup"
	"github.com/berth-project/berth/internal/cpuset"
	"github.com/berth-project/berth/internal/unit"
)

// Group is a group that Berth made. It is for one goroutine.
type Group struct{ path string }

// New makes the group name below parent ("" is the root).
func New(host *cgroup.Host, parent, name string) (*Group, error) {
	return nil, errors.ErrUnsupported
}

// Sub makes a group below g.
func (g *Group) Sub(name string) (*Group, error) { return nil, errors.ErrUnsupported }

// Path returns the group's path.
func (g *Group) Path() string { return g.path }

// SetMax sets quota (unit.NoLimit for none) and period.
func (g *Group) SetMax(quota, period unit.Micros) error { return errors.ErrUnsupported }

// SetBurst sets the burst.
func (g *Group) SetBurst(burst unit.Micros) error { return errors.ErrUnsupported }

// SetCPUs sets the CPUs.
func (g *Group) SetCPUs(cpus cpuset.Set) error { return errors.ErrUnsupported }

// Attach moves a process into the group.
func (g *Group) Attach(pid int) error { return errors.ErrUnsupported }

// Kill kills all processes in the group and below.
func (g *Group) Kill() error { return errors.ErrUnsupported }

// Close kills what runs in the group, removes it and all below it, and undoes
// what New enabled above it.
func (g *Group) Close() error { return errors.ErrUnsupported }

// Sweep removes what earlier runs left below parent.
func Sweep(host *cgroup.Host, parent, prefix string) (removed []string, err error) {
	return nil, errors.ErrUnsupported
}
