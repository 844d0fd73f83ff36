package pinning

import (
	"errors"
	"fmt"
	"time"

	"github.com/berth-project/berth/internal/cgroup"
	"github.com/berth-project/berth/internal/cpuset"
	"github.com/berth-project/berth/internal/driver/cgroupfile"
	"github.com/berth-project/berth/internal/plan"
	"github.com/berth-project/berth/internal/unit"
)

// member is one group with a wish.
type member struct {
	wish  Wish
	group *cgroup.Group // nil while it is not open
	knobs map[cgroup.Knob]*knob
	// dirty asks for a full look at the next pass, due is when there is one at the
	// latest, wait how long the next failure holds it back.
	dirty     bool
	due, wait time.Duration
	// deferred says that something was left to systemd since the last look: the next
	// pass looks.
	deferred bool
	// watched is until when it is looked at every second.
	watched time.Duration

	state  State
	reason string
	told   string // the failure that was told last
}

// knob is one setting of a group.
type knob struct {
	// ours is the value that Berth last wrote, or told somebody to write; before
	// is what stood when it was told.
	ours, before cgroup.Value
	// overwritten is somebody else's value that was written over last.
	overwritten cgroup.Value
	// deferred is what was left to systemd since the last look, "" for nothing.
	deferred cgroup.Value
	// effective is what the kernel makes of what stands, settled that this follows
	// from the wish, lacking that the wish names more, which is offline.
	effective        cpuset.Set
	settled, lacking bool
	problem          error
	duel
}

func newMember(w Wish) *member {
	return &member{wish: w, knobs: map[cgroup.Knob]*knob{}, dirty: true, state: Pending}
}

// take takes over a wish that may have changed.
func (m *member) take(w Wish) {
	before := m.wish
	m.wish = w
	before.Why, before.Workload = w.Why, w.Workload
	if before == w {
		return
	}
	m.dirty, m.wait = true, 0
	for k, kn := range m.knobs {
		if before.value(k, 1) != w.value(k, 1) {
			kn.duel = duel{}
			kn.settled = false
		}
		if !w.wants(k) {
			delete(m.knobs, k)
		}
	}
}

func (m *member) knob(k cgroup.Knob) *knob {
	kn := m.knobs[k]
	if kn == nil {
		kn = &knob{}
		m.knobs[k] = kn
	}
	return kn
}

// open opens the group, or finds out that it was made again.
func (m *member) open(host *cgroup.Host) error {
	if m.group != nil {
		return nil
	}
	g, err := host.Group(m.wish.Group)
	if err != nil {
		return err
	}
	m.group = g
	return nil
}

// drop closes a group that is gone. One that comes back under its name is another
// one, of which nothing is known.
func (m *member) drop() {
	_ = m.close() // only read through
	clear(m.knobs)
}

func (m *member) close() error {
	if m.group == nil {
		return nil
	}
	err := m.group.Close()
	m.group = nil
	return err
}

// undisturbed says that everything is in effect as it was left, by one read each.
func (m *member) undisturbed() bool {
	if m.dirty || m.group == nil || m.state != Applied {
		return false
	}
	for k := range m.wish.knobs() {
		kn := m.knobs[k]
		if kn == nil || !kn.settled || kn.lacking || !m.stands(k, kn) {
			return false
		}
	}
	return true
}

func (m *member) stands(k cgroup.Knob, kn *knob) bool {
	if k == cgroup.KnobMax {
		_, period, err := kn.ours.Pair()
		if err != nil {
			return false
		}
		stands, err := m.group.Stands(unit.NoLimit, period)
		return err == nil && stands
	}
	set, err := m.group.Effective(k)
	return err == nil && set == kn.effective
}

// read returns what stands, and what a wish of the knob amounts to now. The group of
// a unit may lack the controller until systemd is asked.
func (m *member) read(k cgroup.Knob, unitName string) (stands, want cgroup.Value, err error) {
	stands, err = m.group.Read(k)
	if unitName != "" && errors.Is(err, cgroup.ErrNoController) {
		stands, err = cgroup.Inherit, nil
	}
	if err != nil {
		return "", "", err
	}
	period := unit.Micros(1)
	if k == cgroup.KnobMax {
		if _, period, err = stands.Pair(); err != nil {
			return "", "", fmt.Errorf("group %q: %w", m.wish.Group, err)
		}
	}
	return stands, m.group.Attainable(k, m.wish.value(k, period)), nil
}

// identity is that of the group for a knob.
func (m *member) identity(k cgroup.Knob) (plan.Identity, error) {
	id, err := m.group.ID(k.Controller())
	return cgroupfile.Identity(id), err
}

// verify compares what the kernel does with what stands.
func (m *member) verify(k cgroup.Knob, stands cgroup.Value) error {
	kn := m.knob(k)
	kn.ours, kn.before, kn.settled = stands, "", true
	if k == cgroup.KnobMax {
		return nil
	}
	effective, ok, err := m.group.InEffect(k, stands)
	kn.effective, kn.settled = effective, err == nil && ok
	kn.lacking = cgroup.ListValue(effective) != m.wish.value(k, 1)
	switch {
	case err != nil:
		return err
	case !ok:
		return fmt.Errorf("%w: %s of %s is %s, the kernel uses %s %v",
			errNotInEffect, k, m.wish.Group, stands, effective, m.group.Obstacles(k, stands))
	}
	return nil
}

// errNotInEffect says that the file has what is wished, and the kernel does something
// else.
var errNotInEffect = errors.New("not in effect")

func (m *member) status() Status {
	s := Status{Wish: m.wish, State: m.state, Reason: m.reason}
	if kn := m.knobs[cgroup.KnobCPUs]; kn != nil {
		s.CPUs = kn.effective
	}
	if kn := m.knobs[cgroup.KnobMems]; kn != nil {
		s.Mems = kn.effective
	}
	return s
}
