package tuner

import (
	"fmt"
	"maps"
	"time"

	"github.com/berth-project/berth/internal/engine/apply"
	"github.com/berth-project/berth/internal/engine/driver"
	"github.com/berth-project/berth/internal/engine/driver/boot"
	"github.com/berth-project/berth/internal/engine/driver/cgroupfile"
	"github.com/berth-project/berth/internal/engine/journal"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/internal/linux/knob"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// Owner is the owner of all settings of host profiles.
const Owner plan.Owner = "tune"

// Host describes the host of a Tuner. Dir, Root, Boot, Now and Boottime are required.
type Host struct {
	// Dir is stateDir/tune. AgentDir is the agent's stateDir, "" for none.
	Dir, AgentDir string
	Root          *hostfs.Root
	// Kernel asks the kernel below Root what its files do not show.
	Kernel Kernel
	// Groups are the control groups of units. It is nil where units cannot be set: below another root the threads are
	// not this kernel's. Units makes systemd write their CPUs and memory nodes. If Units is nil, Berth writes them.
	Groups *cgroup.Host
	Units  cgroupfile.Units
	// Boot is the id of this boot.
	Boot string
	// Now is the wall clock, and Boottime is CLOCK_BOOTTIME.
	Now      func() time.Time
	Boottime func() time.Duration
	// Keep starts the process that undoes the record at its deadline, once the record is on disk. Nil starts nothing.
	Keep func(Applied) error
	// Step is called between every two steps that change something.
	Step func(string)
	// Salvage reads as much of a damaged journal as possible, for a rollback or at a deadline.
	Salvage bool
	// Leave makes an undo leave values that other programs changed, and forget their originals.
	Leave bool
	// Mems returns why a group cannot have the desired memory nodes, nil if it can. A nil Mems refuses nothing. Mems
	// may wait.
	Mems func(group string, to cpuset.Set) error
	// Generate makes GRUB's configuration; nil is update-grub.
	Generate boot.Generate
	// made are the Kinds for all tries of one keeper: they remember the processes that do not answer.
	made apply.Kinds
}

// Kinds returns the kinds of target that can be written on this host.
func (h Host) Kinds() apply.Kinds {
	if h.made != nil {
		return h.made
	}
	kinds := driver.OfHost(h.Root)
	if h.Groups != nil {
		kinds = driver.Kinds(h.Groups, h.Units)
	}
	if h.Generate != nil {
		maps.Copy(kinds, boot.Kinds(h.Root, h.Generate))
	}
	return kinds
}

// Tuner applies and undoes profiles. It locks stateDir/tune until it is closed. Only one goroutine may use it.
type Tuner struct {
	host    Host
	journal *journal.Journal
	held    func(plan.Target) error // by the agent
	applier *apply.Applier
	record  Applied
	is      bool // there is a record
	notes   []string
	settled []apply.Restored // what settle undid
}

// Open locks the directory, and finishes what is due (settle). It returns the errors of journal.Open, including
// ErrLocked, and those of Load.
func Open(h Host) (*Tuner, error) {
	if h.Step == nil {
		h.Step = func(string) {}
	}
	open := journal.Open
	if h.Salvage {
		open = journal.Salvage
	}
	j, err := open(h.Dir, h.Boot, driver.Values())
	if err != nil {
		return nil, fmt.Errorf("stateDir/tune: %w", err)
	}
	t := &Tuner{host: h, journal: j, held: h.holder(), notes: j.Recovery().Notes()}
	t.applier = apply.New(h.Kinds(), j, apply.Options{
		Now: h.Now, Held: t.held, Records: h.Units != nil, Leave: h.Leave, Step: func(s apply.Step, at plan.Target) { h.Step(string(s) + ": " + at.String()) },
	})
	settled := false
	defer func() {
		if !settled {
			_ = j.Close() // the error of settle is the one to report
		}
	}()
	if err := t.settle(); err != nil {
		return nil, err
	}
	settled = true
	return t, nil
}

// Close unlocks the directory.
func (t *Tuner) Close() error {
	if err := t.journal.Close(); err != nil {
		return fmt.Errorf("stateDir/tune: %w", err)
	}
	return nil
}

// Applied returns the record, and false where no profile is applied.
func (t *Tuner) Applied() (Applied, bool) { return t.record, t.is }

// Notes returns sentences about what Open found and did.
func (t *Tuner) Notes() []string { return t.notes }

// settle reads the record, drops an uncommitted record of another boot, and undoes what is due.
func (t *Tuner) settle() error {
	var err error
	if t.record, t.is, err = Load(t.host.Dir); err != nil {
		return err
	}
	switch {
	case !t.is && len(t.journal.Entries()) > 0:
		t.undo() // entries are removed before the record: someone removed the record
	case !t.is:
	case t.record.Boot != t.host.Boot:
		return t.settleBoot()
	case t.record.Due(t.host.Boot, t.host.Boottime()):
		name, left := t.record.Profile.Name, t.record.Phase == Undoing
		all, whole := t.undo()
		t.settled = all
		switch {
		case !whole:
			t.notes = append(t.notes, fmt.Sprintf("profile %s is not wholly undone: berth tune rollback names what is not as before", name))
		case left:
			t.notes = append(t.notes, fmt.Sprintf("profile %s is wholly undone now", name))
		default:
			t.notes = append(t.notes, fmt.Sprintf("profile %s was not committed in time, or its apply died: it is undone", name))
		}
	default:
		t.undoDormant()
		return t.settleBoot() // a trial of an earlier boot
	}
	return nil
}

// forget drops the record, and restores the record of the profile committed before.
func (t *Tuner) forget() error {
	if former := t.record.Former; former != nil {
		if err := former.save(t.host.Dir); err != nil {
			return err
		}
		t.record = *former
		return nil
	}
	if err := remove(t.host.Dir); err != nil {
		return err
	}
	t.record, t.is = Applied{}, false
	return nil
}

// Commit makes the applied profile stay until the next boot. After the boot on trial it makes the boot arguments
// permanent, and returns write errors. Before that boot it returns ErrPending.
func (t *Tuner) Commit() error {
	if err := t.unwritten(); err != nil {
		return fmt.Errorf("profile %s: %w", t.record.Profile.Name, err)
	}
	if t.is && !isWhole(t.settled) {
		return fmt.Errorf("profile %s: %w", t.record.Profile.Name, ErrLeft)
	}
	if t.isTried() {
		return t.makePermanent()
	}
	if t.is && !t.record.Stands(t.host.Boot) && t.record.Outlives() && t.record.Args.Stage == OnTrial {
		return ErrPending
	}
	if !t.is || !t.record.Stands(t.host.Boot) {
		return ErrNotApplied
	}
	if t.record.Phase != Trial && t.record.Phase != Committed {
		return fmt.Errorf("profile %s: %w", t.record.Profile.Name, ErrLeft)
	}
	t.record.Phase, t.record.Deadline, t.record.Former = Committed, 0, nil
	return t.record.save(t.host.Dir)
}

// unwritten returns ErrUnwritten if a limit of real-time threads has its original. The limit is written after the trial
// is on record: the apply ended in between, or a rollback was killed right after it restored the limit.
func (t *Tuner) unwritten() error {
	inForce := t.record.Phase == Trial || t.record.Phase == Committed
	for _, s := range t.record.Settings {
		entry, is := t.journal.Entry(s.Target)
		if !inForce || !is || driver.Phase(s.Target) != knob.RealTime {
			continue
		}
		now, same := t.applier.Read([]plan.Target{s.Target})[0], t.applier.Kinds().Same
		if now.Err == nil && !same(s.Target, now.Value, s.Value) && same(s.Target, now.Value, entry.Original) {
			return fmt.Errorf("%s: %w: it is %s", s.Knob, ErrUnwritten, now.Value)
		}
	}
	return nil
}

// Rollback undoes the applied profile, and returns one line for each value. If not all is as before, the record and the
// entries stay. Rollback also forgets a profile that was committed in an earlier boot.
func (t *Tuner) Rollback() []apply.Restored {
	remembers := t.record.Former != nil
	t.record.Former = nil
	if remembers && t.record.Due(t.host.Boot, t.host.Boottime()) { // Open has tried, limits first; otherwise undo records it
		_ = t.recordUndo() // undo reports a failure
	}
	if all := t.Undo(); len(all) > 0 {
		return all
	}
	return t.settled // all was due, and Open undid it
}

// Undo works as Rollback, but remembers a profile that was committed in an earlier boot.
func (t *Tuner) Undo() []apply.Restored {
	all, _ := t.undo()
	return all
}
