package tuner

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability/tune"
	"github.com/berth-project/berth/internal/engine/apply"
	"github.com/berth-project/berth/internal/engine/driver"
	"github.com/berth-project/berth/internal/engine/journal"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/knob"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// mostDied is how many boots in a row may die during an apply of the committed profile.
const mostDied = 2

// Order describes an apply.
type Order struct {
	Profile  v1alpha1.Profile
	Settings []tune.Setting
	// Waiting are settings of units that do not run. With Again, Apply only records them.
	Waiting []tune.Setting
	// Confirm is the time until the apply is undone; 0 commits it at once.
	Confirm time.Duration
	// Boot are boot arguments. The first boot with them is a trial, unless NoTrial gives them to all boots at once.
	// Again adopts the boot arguments on record from an earlier boot.
	Boot           []string
	NoTrial, Again bool
	// Held makes the profile last only while this Tuner is open and its process lives. It cannot be committed. Any Open
	// that finds no process at work undoes it, even before its deadline.
	Held bool
}

// Result describes what an apply did.
type Result struct {
	// Writes counts the files that were written.
	Writes int
	// Left are settings that the apply went on without: this kernel refused them, or their CPUs went offline since the
	// plan.
	Left []tune.Setting
	// Partly are settings that the kernel accepted in part, each with its present value. Count adds units with memory on
	// other nodes.
	Partly []tune.Setting
	// Mems are the memory nodes of units that were written.
	Mems []tune.Setting
	// Restored are the outcomes of the undo, if the apply failed.
	Restored []apply.Restored
}

type one struct {
	tune.Setting
	change plan.Change
}

// Apply writes the settings. After an error nothing is applied. The error matches ErrUndone if written values were
// restored, and also ErrLeft if some could not be. Other errors are ErrApplied, ErrHeld, ErrKeeper, and those of reads
// and the disk.
func (t *Tuner) Apply(o Order) (Result, error) {
	if t.is && t.record.isLeft(t.settled, o.Again) {
		return Result{}, fmt.Errorf("profile %s: %w", t.record.Profile.Name, ErrLeft)
	}
	var waiting []Setting
	o.Settings, waiting = t.record.waiting(o, knob.Open(t.host.Root.FS()))
	all, asleep, err := t.look(o)
	if err != nil {
		return Result{}, err
	}
	args, files, err := t.lookBoot(o)
	if err != nil {
		return Result{}, err
	}
	next := Applied{
		Profile: o.Profile, Boot: t.host.Boot, Since: t.host.Now(), Deadline: t.host.Boottime() + o.Confirm,
		Phase: Applying, PID: os.Getpid(), Settings: settings(all), Dormant: settings(asleep), Waiting: waiting, Args: args,
		Groups: groups(all),
	}
	done := Result{Left: reported(asleep)}
	all = inTurn(t.host.Root.FS(), append(all, files...))
	standing := t.is && t.record.Stands(t.host.Boot)
	if standing {
		all, err = t.over(&next, all)
	} else if t.is {
		next.Former, err = t.record.before(o)
	}
	if err != nil {
		return Result{}, err
	}
	changes := t.changes(all)
	if len(changes) == 0 && (!standing || t.record.Phase == Committed || o.Confirm == 0) {
		return done, t.stands(next)
	}
	if err := t.begin(next, changes, o.Confirm > 0); err != nil {
		return Result{}, err
	}
	return t.carryOut(done, next, all, o.phase())
}

// isLeft reports whether the profile, or its boot arguments, is undone in part. With again, a committed profile may be
// applied although its boot arguments were undone only in part. These stay as they are.
func (a Applied) isLeft(settled []apply.Restored, again bool) bool {
	return a.Phase == Undoing || !again && !isWhole(settled)
}

// inTurn sorts the settings into the order of writing. A limit of real-time threads that is tighter than the present
// one comes first: the disk has to answer after threads have their policies. Any other limit comes last.
func inTurn(tree fs.FS, all []one) []one {
	stands := knob.LimitOf(tree)
	asked := stands
	for _, s := range all {
		asked = asked.With(s.File, string(s.change.Value))
	}
	tightens, first := asked.Tightens(stands), asked.First(stands)
	for i := range all {
		if all[i].Phase == knob.RealTime && tightens {
			all[i].Phase = knob.Tightened
		}
	}
	slices.SortStableFunc(all, func(a, b one) int {
		switch {
		case a.Phase != b.Phase || !a.isLimit():
			return cmp.Compare(a.Phase, b.Phase)
		case a.File == first:
			return -1
		case b.File == first:
			return 1
		}
		return 0
	})
	return all
}

func (s one) isLimit() bool { return s.Phase == knob.Tightened || s.Phase == knob.RealTime }

// over returns the settings to write while a profile is in force: only the same profile may be applied again.
func (t *Tuner) over(next *Applied, all []one) ([]one, error) {
	if !t.record.isOf(next.Profile.Name, slices.Concat(next.Settings, next.Dormant, next.Waiting), next.Args) {
		return nil, fmt.Errorf("%w: %s, with other settings: roll it back first (berth tune rollback)", ErrApplied, t.record.Profile.Name)
	}
	next.Left, next.Former = t.record.Left, t.record.former()
	next.keep(t.record)
	next.Waiting = slices.DeleteFunc(next.Waiting, func(s Setting) bool { return slices.Contains(t.record.Settings, s) })
	return slices.DeleteFunc(all, func(s one) bool { return slices.Contains(next.Left, s.setting()) }), nil
}

// before returns the record of an earlier boot for the time of an apply; it has only the committed profile. With Again,
// the record counts one more death until the apply ends.
func (a Applied) before(o Order) (*Applied, error) {
	if o.Again && a.Died >= mostDied {
		return nil, fmt.Errorf("profile %s: %w", a.Profile.Name, ErrDied)
	}
	if o.Again {
		a.Died++
	}
	return &a, nil
}

// phase returns the phase of the record when all is written.
func (o Order) phase() Phase {
	switch {
	case o.Held:
		return Applying
	case o.Confirm == 0:
		return Committed
	}
	return Trial
}

// stands records a profile that the host has already. It needs no deadline: there is nothing to undo, or the profile
// was committed.
func (t *Tuner) stands(next Applied) error {
	next.Phase, next.Deadline, next.Former = Committed, 0, nil
	next.drop()
	next.Fired = t.record.Fired
	t.record, t.is = next, true
	return next.save(t.host.Dir)
}

// look reads the present values at the settings' targets. It returns ErrMems where memory nodes may not be written,
// ErrHeld where the agent holds the target, and ErrBegin where a unit could not start with a list. Settings in asleep
// have CPUs that went offline since the plan. With Again, asleep also has the settings that would return these errors.
func (t *Tuner) look(o Order) (awake, asleep []one, err error) {
	all := make([]one, 0, len(o.Settings))
	var targets []plan.Target
	for _, s := range o.Settings {
		at, value, err := t.host.target(s)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", s.Name(), err)
		}
		all = append(all, one{s, plan.Change{Setting: plan.Setting{
			Target: at, Value: value, Owner: Owner, Workload: o.Profile.Name, Why: "profile " + o.Profile.Name,
		}}})
		targets = append(targets, at)
	}
	for i, stands := range t.applier.Read(targets) {
		s := all[i]
		s.change.ID, s.change.From = stands.ID, stands.Value
		err := cmp.Or(t.held(s.change.Target), stands.Err)
		if err == nil {
			err = t.mayHave(s)
		}
		switch {
		case errors.Is(err, apply.ErrNotInForce), o.Again && waits(err):
			s.Why = err.Error()
			asleep = append(asleep, s)
		case err != nil:
			return nil, nil, fmt.Errorf("%s: %w", s.Name(), err)
		default:
			awake = append(awake, s)
		}
	}
	if o.Again {
		awake, asleep = withLists(awake, asleep)
	}
	return awake, asleep, nil
}

// withLists also leaves out settings that depend on an omitted list of CPUs: all partitions, since a partition claims
// its group's CPUs, and the memory nodes of that group.
func withLists(awake, asleep []one) (rest, out []one) {
	var why string
	left := map[string]bool{} // by group
	for _, s := range asleep {
		if s.Phase == knob.Exclusives || s.Knob == tune.UnitCPUs {
			why = fmt.Sprintf("is left out with %s: %s", s.Name(), s.Why)
			left[s.change.Object] = true
		}
	}
	for _, s := range awake {
		made := s.Phase == knob.Exclusives || s.Phase == knob.Partitions || s.Knob == tune.UnitMems && left[s.change.Object]
		if len(left) == 0 || !made {
			rest = append(rest, s)
			continue
		}
		s.Why = why
		asleep = append(asleep, s)
	}
	return rest, asleep
}

// free returns an error if the agent's journal has one of the targets.
func (t *Tuner) free(targets []plan.Target) error {
	for _, at := range targets {
		if err := t.held(at); err != nil {
			return fmt.Errorf("%s: %w", at, err)
		}
	}
	return nil
}

// holder returns a function that checks whether the agent has a target on record. It returns nil if not, ErrHeld with
// the workload, or why the agent's journal cannot be read.
func (h Host) holder() func(plan.Target) error {
	if h.AgentDir == "" {
		return func(plan.Target) error { return nil }
	}
	agent := journal.NewBeside(h.AgentDir, h.Boot, driver.Values())
	return func(at plan.Target) error {
		switch e, held, err := agent.Entry(at); {
		case err != nil:
			return fmt.Errorf("stateDir: %w", err)
		case held:
			return fmt.Errorf("%w, for workload %q", ErrHeld, e.Workload)
		}
		return nil
	}
}

// Held returns the plan with the targets marked that the agent holds, and that Apply would refuse. After an error some
// targets may be unmarked.
func (h Host) Held(p tune.Plan) (tune.Plan, error) {
	held := h.holder()
	var unread error
	p = p.Held(func(s *tune.Setting) string {
		at, _, err := h.target(*s)
		if err != nil { // of another kind, or not there
			return ""
		}
		switch err := held(at); {
		case errors.Is(err, ErrHeld):
			return err.Error()
		case err != nil:
			unread = err
		}
		return ""
	})
	return p, unread
}

// changes returns the changes for settings that differ from the host. A changed governor may move every preference.
// Therefore the originals of all preferences are read before its write.
func (t *Tuner) changes(all []one) []plan.Change {
	var changes []plan.Change
	moves := false
	for _, s := range all {
		differs := !t.applier.Kinds().Same(s.change.Target, s.change.From, s.change.Value)
		moves = moves || differs && s.Phase == knob.Governors
		if differs || moves && s.Phase == knob.Preferences { // preferences come after the governors
			changes = append(changes, s.change)
		}
	}
	return changes
}

// mayHave returns ErrBegin if a unit could not start with a list. It returns ErrMems if the desired memory nodes of a
// unit would harm: systemd writes them and blocks until the kernel has moved pages. Policies that the kernel rebinds
// stay so after an undo.
func (t *Tuner) mayHave(s one) error {
	c := &s.change
	if err := mayBegin(t.applier, c); err != nil {
		return err
	}
	if s.Knob != tune.UnitMems || t.host.Mems == nil || t.applier.Kinds().Same(c.Target, c.From, c.Value) {
		return nil
	}
	to, err := cpuset.Parse(string(c.Value))
	if err == nil {
		err = t.host.Mems(c.Object, to)
	}
	if err != nil {
		return fmt.Errorf("%w %s: %w", ErrMems, c.From, err)
	}
	return nil
}

// begin writes the record, with its deadline, and the originals to disk, and starts the keeper. After an error no
// setting was written, and the record is as before.
func (t *Tuner) begin(next Applied, changes []plan.Change, timed bool) error {
	before, was := t.record, t.is
	if err := next.save(t.host.Dir); err != nil {
		return err
	}
	t.record, t.is = next, true
	t.host.Step("the deadline is recorded")
	var err error
	if timed && t.host.Keep != nil {
		if err = t.host.Keep(next); err != nil {
			err = fmt.Errorf("%w: %w", ErrKeeper, err)
		}
		t.host.Step("the deadline is kept")
	}
	if err == nil {
		err = t.applier.Claim(changes)
	}
	if err == nil {
		t.host.Step("the originals are journaled")
		return nil
	}
	if t.record, t.is = before, was; was {
		return errors.Join(err, before.save(t.host.Dir))
	}
	return errors.Join(err, remove(t.host.Dir))
}

// carryOut writes the settings, and then the record. With a deadline, limits of real-time threads come after the
// record: the disk may stop answering once they are written. Commit checks for them.
func (t *Tuner) carryOut(done Result, next Applied, all []one, phase Phase) (Result, error) {
	first, last := all, []one(nil)
	if i := slices.IndexFunc(all, func(s one) bool { return s.Phase == knob.RealTime }); i >= 0 && phase != Committed {
		first, last = all[:i], all[i:]
	}
	err := t.writeAll(&done, &next, first)
	if err == nil {
		err = t.complete(next, phase)
	}
	recorded := len(done.Left)
	if err == nil {
		err = t.writeAll(&done, &next, last)
	}
	if err == nil && len(done.Left) > recorded {
		err = t.complete(next, phase)
	}
	if err != nil {
		return t.failed(done, err)
	}
	return done, nil
}

// writeAll writes the settings, and collects those that the host did not accept.
func (t *Tuner) writeAll(done *Result, next *Applied, all []one) error {
	for _, s := range all {
		wrote, err := t.write(s)
		if wrote {
			done.Writes++
		}
		switch {
		case err == nil && wrote && s.Knob == tune.UnitMems:
			done.Mems = append(done.Mems, s.Setting)
		case err == nil:
		case errors.Is(err, apply.ErrPartly):
			s.Why = err.Error()
			done.Partly = append(done.Partly, s.Setting)
		case leaves(s, err):
			s.Why = err.Error()
			done.Left = append(done.Left, s.Setting)
			if errors.Is(err, apply.ErrNotInForce) {
				next.Dormant = append(next.Dormant, s.setting())
			} else {
				next.Left = append(next.Left, s.setting())
			}
			t.applier.Restore(func(e journal.Entry) bool { return e.Target == s.change.Target }, false) // nothing was written
		default:
			return fmt.Errorf("%s: %w", s.Name(), err)
		}
	}
	return nil
}

// complete records the settings of the host when all is written.
func (t *Tuner) complete(next Applied, phase Phase) error {
	next.Phase, next.Settings = phase, slices.Clone(next.Settings)
	next.drop()
	next.Fired = fired(t.host.Root.FS(), next.Settings)
	if phase == Committed {
		next.Deadline, next.Former = 0, nil
	}
	t.record.Phase = phase // also if the disk has it and did not report so
	if err := next.save(t.host.Dir); err != nil {
		return err
	}
	t.record = next
	t.host.Step("the apply is recorded")
	return nil
}

func (t *Tuner) failed(done Result, err error) (Result, error) {
	restored, whole := t.undo()
	done.Restored = restored
	err = fmt.Errorf("%w: %w", ErrUndone, err)
	if !whole {
		err = errors.Join(err, ErrLeft)
	}
	return done, err
}

// write makes one change, unless the value is already as desired, and asks the kernel what it made of it. A governor's
// write may have moved a later preference.
func (t *Tuner) write(s one) (bool, error) {
	c := s.change
	if s.Phase == knob.Preferences {
		now := t.applier.Read([]plan.Target{c.Target})[0]
		if now.Err != nil {
			return false, now.Err
		}
		c.From = now.Value
	}
	r := t.applier.Apply([]plan.Change{c})[0]
	if r.Err != nil {
		return r.Wrote, r.Err
	}
	return r.Wrote, t.host.Kernel.check(s.Setting)
}

// leaves reports whether an apply goes on without a setting that could not be written. Its CPUs are offline, or it is
// optional and the host refuses it, or its interrupt is gone or managed by the kernel.
func leaves(s one, err error) bool {
	if errors.Is(err, apply.ErrNotEffective) {
		return false
	}
	if errors.Is(err, apply.ErrNotInForce) {
		return true
	}
	if s.Optional && (errors.Is(err, apply.ErrRefused) || driver.IsReadOnly(err)) {
		return true
	}
	return driver.IsInterrupt(s.change.Target) && (errors.Is(err, apply.ErrGone) || driver.IsReadOnly(err))
}

func settings(all []one) []Setting {
	list := make([]Setting, 0, len(all))
	for _, s := range all {
		if s.Phase != knob.Boot { // Arguments has the desired boot arguments
			list = append(list, s.setting())
		}
	}
	return list
}

func reported(all []one) []tune.Setting {
	var list []tune.Setting
	for _, s := range all {
		list = append(list, s.Setting)
	}
	return list
}

func (s one) setting() Setting {
	return Setting{
		Knob: s.Knob, Instance: s.Instance, File: s.File, Want: s.Want, Value: s.change.Value, Target: s.change.Target,
	}
}
