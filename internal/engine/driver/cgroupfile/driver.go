package cgroupfile

import (
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/berth-project/berth/internal/engine/apply"
	"github.com/berth-project/berth/internal/engine/hostwrite"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/internal/linux/pages"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// Host opens groups, and the files of the host. *cgroup.Host is a Host.
type Host interface {
	Group(path string, of ...cgroup.Controller) (*cgroup.Group, error)
	Root() *hostfs.Root
}

// Units has systemd write the lists of its units, because systemd would undo direct writes.
type Units interface {
	// SetList sets CPUs or memory nodes of a unit until the next boot, and returns when systemd has done it. With
	// cgroup.Inherit systemd forgets the list; the caller writes the file. An implementation that asks systemd later
	// returns apply.ErrDeferred.
	SetList(unit string, k cgroup.Knob, v cgroup.Value) error
}

// Weights is a Units that also sets the precedence of a unit.
type Weights interface {
	// SetWeight sets the precedence of a unit until the next boot, and returns when systemd has written the files of
	// the group. An implementation that asks systemd later returns apply.ErrDeferred. A systemd without idle units is
	// ErrNoIdle.
	SetWeight(unit string, v cgroup.Value) error
}

// Kinds returns the three kinds of target for the groups of a host. If units is nil, a write of the kind systemd is
// ErrNoUnits, and so is all of the kind slice.
func Kinds(host Host, units Units) apply.Kinds {
	return kindsOf(knownHost{host, pages.Live(host.Root())}, units, nil)
}

func kindsOf(host knownHost, units Units, aside *Aside) apply.Kinds {
	opener := &opener{host: host, units: units, aside: aside, affinity: affinity{before: map[string]map[int]cpuset.Set{}}}
	values := Values()
	kinds := apply.Shared(plan.Kinds{Driver: values[Driver], UnitDriver: values[UnitDriver]}, opener)
	maps.Copy(kinds, apply.Of(plan.Kinds{SliceDriver: values[SliceDriver]}, func(call apply.Call) apply.Driver {
		systemd, _ := units.(Slices)
		return ownSlices{newGroups(opener, call), systemd}
	}))
	return kinds
}

// knownHost is a host and the state of its kernel: processes that do not answer.
type knownHost struct {
	Host

	kernel pages.Kernel
}

type opener struct {
	host     knownHost
	units    Units
	aside    *Aside // nil if the caller waits for every write
	affinity affinity
}

// Open returns a driver for one call.
func (o *opener) Open(call apply.Call) apply.Driver { return newGroups(o, call) }

func newGroups(o *opener, call apply.Call) *groups {
	return &groups{opener: o, call: call, open: make(map[string]*cgroup.Group)}
}

// groups is the driver of knobs of groups. It opens each group once per call, so that all reads and writes of the call
// use the same directory.
type groups struct {
	*opener

	call apply.Call
	open map[string]*cgroup.Group
	// unreached is the error of a failed attempt to reach systemd, nil if there was none.
	unreached error
}

func (s *groups) get(path string) (*cgroup.Group, error) {
	if g := s.open[path]; g != nil {
		return g, nil
	}
	g, err := s.host.Group(path)
	if err != nil {
		return nil, err
	}
	s.open[path] = g
	return g, nil
}

// drop makes the next get open the group of a path again.
func (s *groups) drop(path string) {
	if g := s.open[path]; g != nil {
		_ = g.Close() // every write was read back
		delete(s.open, path)
	}
}

// Close closes the groups.
func (s *groups) Close() error {
	var errs []error
	for _, g := range s.open {
		errs = append(errs, g.Close())
	}
	clear(s.open)
	return errors.Join(errs...)
}

// Read returns the written value, which is not always in effect, and the identity of the group.
func (s *groups) Read(t plan.Target) (plan.Value, plan.Identity, error) {
	g, err := s.get(t.Object)
	if err != nil {
		return "", "", classify(err)
	}
	id, err := IdentityOf(g, t)
	if err != nil {
		return "", "", classify(err)
	}
	v, err := read(g, t)
	return plan.Value(v), id, classify(err)
}

// read returns the value of a target. A unit's group may lack the controller until systemd is asked for a value.
func read(g *cgroup.Group, t plan.Target) (cgroup.Value, error) {
	v, err := g.Read(Knob(t))
	if (t.Driver == UnitDriver || isPartition(t)) && errors.Is(err, cgroup.ErrNoController) {
		return Knob(t).WithoutController(), nil
	}
	return v, err
}

// Write writes the value of a change and reads it back.
func (s *groups) Write(c plan.Change) (plan.Value, error) {
	g, err := s.get(c.Object)
	if err != nil {
		return "", classify(err)
	}
	write := s.writeQuantity
	switch k := Knob(c.Target); {
	case isPartition(c.Target):
		write = s.writePartition
	case k.Controller() == cgroup.CPUSet:
		write = s.writeList
	case k == cgroup.KnobPrecedence:
		write = s.writePrecedence
	case k == cgroup.KnobRTRuntime:
		write = s.writeBudget
	}
	effective, err := write(g, c)
	return plan.Value(effective), classify(err)
}

// Attainable implements apply.Attainer: see cgroup.Group.Attainable. For cgroup.Inherit, the write first tries to
// inherit; where it had to list all CPUs or nodes, the list counts as restored. The value to write leaves out CPUs of
// a sibling partition; then Inherit counts as restored only once the group has all CPUs.
func (s *groups) Attainable(t plan.Target, v plan.Value) (write, stands plan.Value) {
	g, err := s.get(t.Object)
	if err != nil {
		return v, v
	}
	k := Knob(t)
	all := g.Attainable(k, cgroup.Value(v))
	write, stands = plan.Value(all), plan.Value(all)
	if k == cgroup.KnobCPUs && (v != plan.Value(cgroup.Inherit) || cgroup.Populated(g)) {
		write = plan.Value(cgroup.Spare(g, all))
	}
	if v == plan.Value(cgroup.Inherit) && write == stands {
		write = v
	}
	return write, stands
}

// Locate implements apply.Locator.
func (s *groups) Locate(t plan.Target, v plan.Value) string {
	g, err := s.get(t.Object)
	if err != nil {
		return ""
	}
	dir, name, _, err := g.Encode(Knob(t), cgroup.Value(v))
	if err != nil {
		return ""
	}
	return dir.Path() + "/" + name
}

// Encode implements apply.Encoder: v1 has a file for each number of a limit, and the file of a burst has no period. A
// precedence may need two files.
func (s *groups) Encode(t plan.Target, v plan.Value) (text string, takes bool) {
	g, err := s.get(t.Object)
	if err != nil || Knob(t) == cgroup.KnobPrecedence {
		return "", false
	}
	_, _, text, err = g.Encode(Knob(t), cgroup.Value(v))
	return strings.TrimSuffix(text, "\n"), err == nil
}

// put writes a value, encoded for the group's cgroup version.
func put(g *cgroup.Group, k cgroup.Knob, v cgroup.Value) error {
	dir, file, content, err := g.Encode(k, v)
	if err != nil {
		return err
	}
	return hostwrite.Existing(dir, file, content)
}

// classify wraps an error in apply.ErrGone if it means that the group is gone.
func classify(err error) error {
	if errors.Is(err, cgroup.ErrNoGroup) || errors.Is(err, hostfs.ErrGone) {
		return fmt.Errorf("%w: %w", apply.ErrGone, err)
	}
	return err
}
