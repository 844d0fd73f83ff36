package tuner

import (
	"fmt"
	"maps"
	"time"

	"github.com/berth-project/berth/internal/apply"
	"github.com/berth-project/berth/internal/cgroup"
	"github.com/berth-project/berth/internal/cpuset"
	"github.com/berth-project/berth/internal/driver"
	"github.com/berth-project/berth/internal/driver/boot"
	"github.com/berth-project/berth/internal/driver/cgroupfile"
	"github.com/berth-project/berth/internal/hostfs"
	"github.com/berth-project/berth/internal/journal"
	"github.com/berth-project/berth/internal/knob"
	"github.com/berth-project/berth/internal/plan"
)

// Owner is that of all settings of host profiles.
const Owner plan.Owner = "tune"

// Host is where a Tuner works. Dir, Root, Boot, Now and Boottime are required.
type Host struct {
	// Dir is stateDir/tune, and AgentDir the agent's stateDir, "" for none.
	Dir, AgentDir string
	Root          *hostfs.Root
	// Groups are the control groups of units, nil where units cannot be set: below another
	// root the threads are not this kernel's. Units has systemd write their CPUs and memory
	// nodes; without it, nil, Berth does.
	Groups *cgroup.Host
	Units  cgroupfile.Units
	// Boot is the id of this boot.
	Boot string
	// Now is the wall clock, and Boottime is CLOCK_BOOTTIME.
	Now      func() time.Time
	Boottime func() time.Duration
	// Keep starts what undoes the record at its deadline, once that is on disk; nil starts
	// nothing.
	Keep func(Applied) error
	// Step is called between every two steps that change something.
	Step func(string)
	// Salvage has a damaged journal read as far as it can be, for a rollback or at a deadline.
	Salvage bool
	// Leave has an undo leave what other programs changed, and forget what it was before.
	Leave bool
	// Mems says what is in the way of memory nodes that a group is to have, nil for nothing; a nil Mems knows of
	// nothing. It may wait.
	Mems func(group string, to cpuset.Set) error
	// Generate makes GRUB's configuration; nil is update-grub.
	Generate boot.Generate
	// made are the Kinds of all tries of one keeper: they remember the processes that do not answer.
	made apply.Kinds
}

// Kinds are the kinds of target that can be written here.
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

// Tuner applies and undoes profiles. It holds stateDir/tune until it is closed, and is for
// one goroutine.
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

// Open locks the directory, and finishes what is due (Settle). The errors are those of
// journal.Open, ErrLocked among them, and those of Load.
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

// Close gives the directory back.
func (t *Tuner) Close() error {
	if err := t.journal.Close(); err != nil {
		return fmt.Errorf("stateDir/tune: %w", err)
	}
	return nil
}

// Applied returns the record, and false where no profile is applied.
func (t *Tuner) Applied() (Applied, bool) { return t.record, t.is }

// Notes says what Open found and did, in sentences.
func (t *Tuner) Notes() []string { return t.notes }

// settle reads the record, drops that of another boot unless it was committed, and undoes
// what is due.
func (t *Tuner) settle() error {
	var err error
	if t.record, t.is, err = Load(t.host.Dir); err != nil {
		return err
	}
	switch {
	case !t.is && len(t.journal.Entries()) > 0:
		t.undo() // a record goes after its entries: someone removed it
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

// forget drops the record, and gives back what was committed in an earlier boot.
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

// Commit makes what is applied stay until the next boot. After the boot on trial it makes the boot
// arguments permanent, and the error is then that of a write, or ErrPending before it.
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

// unwritten is ErrUnwritten where a limit of real-time threads has its original: it is written once the trial is on
// record, and the apply ended in between; or a rollback was killed as soon as it had put that back.
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

// Rollback puts all back that was applied, and returns one line for each value. Where not
// all is as before, the record and the entries stay. What was committed in an earlier boot
// is forgotten too.
func (t *Tuner) Rollback() []apply.Restored {
	remembers := t.record.Former != nil
	t.record.Former = nil
	if remembers && t.record.Due(t.host.Boot, t.host.Boottime()) { // Open has tried, limits first; else undo says so
		_ = t.recordUndo() // what is left is told below
	}
	if all := t.Undo(); len(all) > 0 {
		return all
	}
	return t.settled // all was due, and is done
}

// Undo does the same, and remembers what was committed in an earlier boot.
func (t *Tuner) Undo() []apply.Restored {
	all, _ := t.undo()
	return all
}
