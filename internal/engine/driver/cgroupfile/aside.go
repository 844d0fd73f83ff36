package cgroupfile

import (
	"fmt"
	"path"
	"sync"

	"github.com/berth-project/berth/internal/engine/apply"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/linux/pages"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// Aside writes memory nodes in the background for a caller that must not wait: on cgroup v2 the kernel moves pages
// before such a write ends. It makes one write at a time. The caller gets apply.ErrDeferred, and finds the value at a
// later check. Aside is safe for concurrent use. A nil Aside makes its caller write, and wait.
type Aside struct {
	mu      sync.Mutex
	may     func(group string, to cpuset.Set) error
	at      map[string]*written // by group
	atOnce  bool
	writing sync.Mutex
	all     sync.WaitGroup
}

// written is the last write to a group that has not ended, or that failed.
type written struct {
	id    plan.Identity
	value cgroup.Value
	ended bool
	err   error
}

// NewAside returns an Aside. may returns nil if a group may have the memory nodes now, otherwise an error that says
// what prevents it; may must not wait. Aside calls may if a write would change the nodes in effect. A write that only
// adds nodes also takes the kernel time while the group has threads.
func NewAside(may func(group string, to cpuset.Set) error) *Aside {
	return &Aside{may: may, at: map[string]*written{}}
}

// Kinds is like the function Kinds, but the Aside writes memory nodes.
func (a *Aside) Kinds(host Host, units Units) apply.Kinds {
	return kindsOf(knownHost{host, pages.Live(host.Root())}, units, a)
}

// AtOnce waits for the writes under way. From then on the caller itself writes, and waits. The given may replaces that
// of NewAside, and is allowed to wait.
func (a *Aside) AtOnce(may func(group string, to cpuset.Set) error) {
	if a == nil {
		return
	}
	a.mu.Lock()
	a.atOnce, a.may = true, may
	a.mu.Unlock()
	a.all.Wait()
}

// Wait waits for the writes under way.
func (a *Aside) Wait() {
	if a != nil {
		a.all.Wait()
	}
}

// mayChange returns apply.ErrDeferred if a write would change the memory nodes in effect and may refuses that now. On
// cgroup v1 a group may get more nodes at any time if no page moves and no policy is rebound to other nodes.
func (a *Aside) mayChange(host Host, g *cgroup.Group, v cgroup.Value) error {
	if a == nil {
		return nil
	}
	has, same, err := g.InEffect(cgroup.KnobMems, v)
	if err != nil {
		return fmt.Errorf("memory nodes of %q: %w", g.Path(), err)
	}
	if same {
		return nil
	}
	to, err := nodesOf(host, g, v)
	if err != nil {
		return fmt.Errorf("memory nodes of %q: %w", g.Path(), err)
	}
	if has.IsSubsetOf(to) && !pages.Shifts(has, to) && cgroup.KeepsPages(g) {
		return nil
	}
	a.mu.Lock()
	may := a.may
	a.mu.Unlock()
	if err := may(g.Path(), to); err != nil {
		return fmt.Errorf("%w: memory nodes stay %s: %w", apply.ErrDeferred, has, err)
	}
	return nil
}

// nodesOf returns the memory nodes that a value means for a group.
func nodesOf(host Host, g *cgroup.Group, v cgroup.Value) (cpuset.Set, error) {
	to, inherits, err := v.List()
	if err != nil || !inherits {
		return to, err
	}
	above, err := host.Group(path.Dir("/" + g.Path())[1:], cgroup.CPUSet)
	if err != nil {
		return cpuset.Set{}, err
	}
	defer above.Close()
	return above.EffectiveMems()
}

// put starts a write in the background unless a write to the group is under way. It returns the error of an earlier
// write of the same value, otherwise apply.ErrDeferred.
func (a *Aside) put(host knownHost, id plan.Identity, group string, v cgroup.Value) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	before := a.at[group]
	if before != nil && before.ended && before.value == v && before.id == id {
		delete(a.at, group)
		return before.err
	}
	if before == nil || before.ended {
		now := &written{id: id, value: v}
		a.at[group] = now
		a.all.Go(func() { a.end(group, now, a.write(host, id, group, v)) })
	}
	return fmt.Errorf("%w: the kernel moves pages before the write of %s ends", apply.ErrDeferred, v)
}

// end records the result of a write. The next check finds the written value.
func (a *Aside) end(group string, w *written, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if w.ended, w.err = true, err; err == nil {
		delete(a.at, group)
	}
}

// write writes to the group with an identity. It refuses another group of the same name.
func (a *Aside) write(host knownHost, id plan.Identity, group string, v cgroup.Value) error {
	a.writing.Lock()
	defer a.writing.Unlock()
	g, err := host.Group(group, cgroup.CPUSet)
	if err != nil {
		return err
	}
	defer g.Close()
	now, err := g.ID(cgroup.CPUSet)
	if err != nil {
		return err
	}
	if Identity(now) != id {
		return fmt.Errorf("%w: it is %s, the value is for %s", apply.ErrGone, Identity(now), id)
	}
	if err := a.mayChange(host, g, v); err != nil { // An earlier write may have lasted long.
		return err
	}
	if err := mayMove(host, g, v); err != nil {
		return err
	}
	_, err = putOrAll(g, cgroup.KnobMems, v)
	return err
}

// takes reports whether a value has to be written in the background.
func (a *Aside) takes(k cgroup.Knob) bool {
	if a == nil || k != cgroup.KnobMems {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return !a.atOnce
}
