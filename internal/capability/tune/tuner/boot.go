package tuner

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/berth-project/berth/internal/capability/tune"
	"github.com/berth-project/berth/internal/engine/apply"
	"github.com/berth-project/berth/internal/engine/driver"
	"github.com/berth-project/berth/internal/engine/driver/boot"
	"github.com/berth-project/berth/internal/engine/journal"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/bootargs"
	"github.com/berth-project/berth/internal/linux/knob"
)

// Stage tells which boots have boot arguments.
type Stage string

// The stages of boot arguments.
const (
	// OnTrial: one boot has them, the next boot or the running one.
	OnTrial Stage = "trial"
	// Permanent: all boots from the next one on have them.
	Permanent Stage = "permanent"
	// Over: the boot on trial was not committed. No boot and no file has them.
	Over Stage = "over"
)

// Arguments are the boot arguments of an applied profile.
type Arguments struct {
	Want  []string `json:"want"`
	Stage Stage    `json:"stage"`
	// Boot is the id of the boot in which the files were written.
	Boot string `json:"boot"`
	// Kernel is the kernel of the trial. Kernels are the kernels that were installed at the apply.
	Kernel  string   `json:"kernel,omitempty"`
	Kernels []string `json:"kernels,omitempty"`
	// Own are the arguments that no boot entry had before.
	Own []string `json:"own,omitempty"`
}

func (a *Arguments) want() []string {
	if a == nil {
		return nil
	}
	return a.Want
}

// Outlives reports whether files have, or may have, boot arguments.
func (a Applied) Outlives() bool { return a.Args != nil && a.Args.Stage != Over }

// bootable is what has to be written for boot arguments.
type bootable struct {
	stage Stage
	plan  bootargs.Plan
	files []one
}

// lookBoot returns the boot arguments and files of an apply. Boot arguments on record stay as they are.
func (t *Tuner) lookBoot(o Order) (*Arguments, []one, error) {
	has := t.is && t.record.Args != nil
	switch {
	case has && (o.Again || t.record.Outlives() && slices.Equal(t.record.Args.Want, o.Boot)):
		return t.record.Args, nil, nil
	case has && t.record.Outlives():
		return nil, nil, fmt.Errorf("%w: %s, with other boot arguments: roll it back first (berth tune rollback)", ErrApplied, t.record.Profile.Name)
	case len(o.Boot) == 0:
		return nil, nil, nil
	}
	b, err := t.host.bootable(o.Boot, o.NoTrial)
	if err != nil {
		return nil, nil, err
	}
	if err := t.lookFiles(b.files, o.Profile.Name); err != nil {
		return nil, nil, err
	}
	tree := t.host.Root.FS()
	args := &Arguments{Want: o.Boot, Stage: b.stage, Boot: t.host.Boot, Kernel: b.plan.Trial.Kernel, Kernels: bootargs.Kernels(tree)}
	holders, err := bootargs.Holders(tree, o.Boot, func(_, text string) string { return text })
	if err == nil && len(b.files) > 0 {
		args.Own = slices.DeleteFunc(slices.Clone(o.Boot), func(token string) bool {
			return slices.ContainsFunc(holders, func(h bootargs.Holder) bool { return slices.Contains(h.Tokens, token) })
		})
	}
	return args, b.files, err
}

// CanBoot returns why the boot arguments of a profile cannot be applied. It needs no state.
func (h Host) CanBoot(want []string, noTrial bool) error {
	_, err := h.bootable(want, noTrial)
	return err
}

// bootable plans boot arguments. If the running kernel was booted with them, no trial is needed: the kernel runs.
func (h Host) bootable(want []string, noTrial bool) (bootable, error) {
	tree := h.Root.FS()
	p, err := bootargs.Make(tree, want)
	booted := bootargs.Booted(tree, want)
	b := bootable{stage: Permanent, plan: p}
	switch {
	case errors.Is(err, bootargs.ErrByHand) && booted: // a person set them
		return b, nil
	case err != nil:
		return b, fmt.Errorf("boot arguments: %w", err)
	case len(p.Files) == 0:
		return b, nil
	case booted, noTrial:
		if p.Regenerate != "" && h.Generate == nil && h.Root.Path() != "/" {
			return b, fmt.Errorf("boot arguments: %w", boot.ErrElsewhere)
		}
		for _, f := range p.Files {
			b.add(boot.FileTarget(f))
		}
		if p.Regenerate != "" {
			b.add(boot.MenuTarget(bootargs.GRUBConfig, p.Files[0].Want))
		}
		return b, nil
	case p.Trial.Way == "":
		return b, fmt.Errorf("boot arguments: %w: %s", ErrNoTrial, p.Trial.Why)
	}
	b.stage = OnTrial
	b.add(boot.FileTarget(p.Trial.Entry))
	b.add(boot.NextTarget(p.Trial.Mark), boot.Trial)
	return b, nil
}

func (b *bootable) add(at plan.Target, value plan.Value) {
	b.files = append(b.files, one{
		tune.Setting{Knob: "boot", Instance: path.Base(at.Object), File: at.Object, Phase: knob.Boot},
		plan.Change{Setting: plan.Setting{Target: at, Value: value, Owner: Owner}},
	})
}

// lookFiles reads the present values. It returns ErrChosen if another program chose the entry of the next boot.
func (t *Tuner) lookFiles(files []one, profile string) error {
	for i := range files {
		c := &files[i].change
		stands := t.applier.Read([]plan.Target{c.Target})[0]
		if stands.Err != nil {
			return fmt.Errorf("boot arguments: %w", stands.Err)
		}
		if boot.StepOf(c.Target) == boot.Next && !boot.IsUsual(stands.Value) && stands.Value != c.Value {
			return fmt.Errorf("boot arguments: %w: %s in %s", ErrChosen, stands.Value, c.Object)
		}
		c.ID, c.From, c.Workload, c.Why = stands.ID, stands.Value, profile, "profile "+profile
	}
	return nil
}

// restoreBoot restores boot files: first the mark that makes the next boot the trial, last the menu, which is generated
// from other files.
func (t *Tuner) restoreBoot(of func(plan.Target) bool) []apply.Restored {
	var all []apply.Restored
	for _, step := range []boot.Step{boot.Next, boot.Files, boot.Menu} {
		all = append(all, t.applier.Restore(func(e journal.Entry) bool {
			return driver.IsBoot(e.Target) && boot.StepOf(e.Target) == step && of(e.Target)
		}, false)...)
	}
	return all
}

// undoBoot restores all boot files, and names the boot entries that still have the arguments.
func (t *Tuner) undoBoot() []apply.Restored {
	all := t.restoreBoot(func(plan.Target) bool { return true })
	if !t.is {
		return all
	}
	return append(all, t.record.since(t.host, t.journal.Entries())...)
}

// since names the entries and labels of kernels that were installed since the apply and copied its arguments: those
// that still have them after the journal's entries are restored. Berth does not know what the arguments replaced there,
// so a person has to remove them.
func (a Applied) since(h Host, entries []journal.Entry) []apply.Restored {
	if !a.Outlives() || len(a.Args.Own) == 0 {
		return nil
	}
	holders, err := bootargs.Holders(h.Root.FS(), a.Args.Own, func(name, text string) string {
		for _, e := range entries {
			if driver.IsBoot(e.Target) && e.Target.Object == "/"+name {
				text = boot.Undone(e.Target, e.Original, text)
			}
		}
		return text
	})
	if err != nil {
		at := plan.Target{Driver: boot.Driver, Object: "entries"}
		return []apply.Restored{{Entry: journal.Entry{Target: at, Owner: Owner}, Outcome: apply.OutcomeFailed, Err: err}}
	}
	var all []apply.Restored
	for _, holder := range holders {
		at := plan.Target{Driver: boot.Driver, Object: "/" + holder.Name, Knob: strings.TrimSpace(string(holder.Form) + " " + holder.Label)}
		tokens := strings.Join(holder.Tokens, " ")
		r := apply.Restored{
			Entry:   journal.Entry{Target: at, Owner: Owner, Workload: a.Profile.Name},
			Outcome: apply.OutcomeFailed, Found: plan.Value(tokens), File: h.Root.Join(at.Object),
			Err: fmt.Errorf("%w: %s was made after the apply and has %s: take that out of it and roll back again; or --leave-drifted keeps what stands", ErrLeft, holder, tokens),
		}
		if h.Leave {
			r.Outcome, r.Err = apply.OutcomeLeft, nil
		}
		all = append(all, r)
	}
	return all
}

// settleBoot finishes what a boot ended: uncommitted settings with their uncommitted files, and a trial that was not
// committed while it ran. The next boot is then the old one.
func (t *Tuner) settleBoot() error {
	earlier := t.record.Boot != t.host.Boot
	if former := t.record.Former; earlier && t.record.Phase != Committed && former != nil && former.Outlives() {
		if err := t.forget(); err != nil { // its boot arguments are those of the former profile
			return err
		}
	}
	t.disarm()
	switch why := t.record.ended(t.host, earlier); {
	case earlier && !t.record.Outlives() && t.record.Phase != Committed:
		return t.forget()
	case why == "":
		return nil
	default:
		t.notes = append(t.notes, fmt.Sprintf("the boot arguments of profile %s are undone: %s", t.record.Profile.Name, why))
	}
	t.settled = t.undoBoot()
	if !isWhole(t.settled) {
		t.notes = append(t.notes, "not all of them: berth tune rollback names what is not as before")
		return nil
	}
	if t.record.Phase != Committed {
		return t.forget()
	}
	over := *t.record.Args
	over.Stage = Over
	t.record.Args = &over
	return t.record.save(t.host.Dir)
}

// disarm makes the next boot the usual one if a trial runs and its boot loader could not end it. A boot loader can fail
// to write although it looked able to: then each boot would be the trial, without a commit.
func (t *Tuner) disarm() {
	if !t.isTried() || t.record.Args.Boot == t.host.Boot || !bootargs.Armed(t.host.Root.FS()) {
		return
	}
	note := "the boot loader did not end the trial of the boot arguments: Berth has, so the next boot is the old one"
	if !isWhole(t.restoreBoot(func(at plan.Target) bool { return boot.StepOf(at) == boot.Next })) {
		note = "the boot loader did not end the trial of the boot arguments, and Berth could not: the next boot is the trial again"
	}
	t.notes = append(t.notes, note)
}

// ended returns why boot arguments have to be undone after a boot, "" if they need not be.
func (a Applied) ended(h Host, earlier bool) string {
	if !a.Outlives() {
		return ""
	}
	onTrial, tree := a.Args.Stage == OnTrial, h.Root.FS()
	switch {
	case earlier && (a.Phase == Applying || a.Phase == Undoing):
		return "what worked on them died"
	case earlier && a.Phase == Trial && !onTrial:
		return "they were not committed before the boot"
	case onTrial && a.Args.Boot != h.Boot && !bootargs.Armed(tree) && !a.tries(tree):
		return "the boot for trial was not committed"
	}
	return ""
}

// isTried reports whether the running kernel is that of the trial.
func (t *Tuner) isTried() bool {
	return t.is && t.record.Outlives() && t.record.Args.Stage == OnTrial && (t.record.Phase == Trial || t.record.Phase == Committed) &&
		t.record.tries(t.host.Root.FS())
}

// tries reports whether the trial's kernel runs, with its arguments.
func (a Applied) tries(tree fs.FS) bool { return bootargs.Tries(tree, a.Args.Want, a.Args.Kernel) }

// makePermanent gives all boots the arguments that the running kernel was booted with, and removes the entry for one
// boot. After an error the trial goes on as it was.
func (t *Tuner) makePermanent() error {
	before := t.record
	b, err := t.host.bootable(before.Args.Want, false)
	if err == nil {
		err = t.lookFiles(b.files, before.Profile.Name)
	}
	if err != nil {
		return err
	}
	args := *before.Args
	args.Stage, args.Boot = Permanent, t.host.Boot
	next := before
	next.Args, next.Phase = &args, Applying
	if err := t.begin(next, t.changes(b.files), false); err != nil {
		return err
	}
	for _, f := range b.files {
		if _, err := t.write(f); err != nil {
			return t.stayOnTrial(before, fmt.Errorf("%s: %w", f.File, err))
		}
	}
	if all := t.restoreBoot(boot.IsTrial); !isWhole(all) {
		return t.stayOnTrial(before, fmt.Errorf("the entry for trial: %w", ErrLeft))
	}
	next.Phase, next.Deadline, next.Former = Committed, 0, nil
	t.record = next
	t.host.Step("the trial is over")
	return next.save(t.host.Dir)
}

// stayOnTrial undoes the writes of a commit.
func (t *Tuner) stayOnTrial(before Applied, err error) error {
	all := t.restoreBoot(func(at plan.Target) bool { return !boot.IsTrial(at) })
	if t.record = before; !isWhole(all) {
		t.record.Phase = Undoing
		err = errors.Join(err, ErrLeft)
	}
	return errors.Join(err, t.record.save(t.host.Dir))
}

// verifyArgs compares the boot arguments with those of the running kernel.
func (a Applied) verifyArgs(tree fs.FS) []tune.Verified {
	var all []tune.Verified
	waits := a.waits(tree)
	for _, token := range a.Args.want() {
		name, _, _ := strings.Cut(token, "=")
		row := tune.Verified{Knob: "boot", Instance: name, File: "/proc/cmdline", Want: token, State: tune.OK}
		var booted bool
		row.Effective, booted = bootargs.InForce(tree, token)
		switch {
		case !booted && waits:
			row.State = tune.PendingReboot
		case !booted:
			row.State = tune.Drift
		case row.Effective != token:
			row.State = tune.Ignored
		}
		all = append(all, row)
	}
	return all
}

// waits reports whether the next boot brings the arguments: there was no boot since the files were written, or the last
// boot used another entry.
func (a Applied) waits(tree fs.FS) bool {
	if !a.Outlives() {
		return false
	}
	id, err := fs.ReadFile(tree, "proc/sys/kernel/random/boot_id")
	return err == nil && strings.TrimSpace(string(id)) == a.Args.Boot || bootargs.Armed(tree)
}

// Ahead returns sentences about the next daemon-reload of systemd and the next boot.
func (a Applied) Ahead(tree fs.FS) []string { return append(a.overruled(tree), a.nextBoot(tree)...) }

func (a Applied) nextBoot(tree fs.FS) []string {
	if !a.Outlives() {
		return nil
	}
	booted := bootargs.Booted(tree, a.Args.Want)
	var notes []string
	switch {
	case a.Args.Stage == OnTrial && a.tries(tree):
		return []string{"this boot has the boot arguments on trial, and the next one has not: berth tune commit"}
	case booted || !a.waits(tree):
		return nil
	case a.Args.Stage == OnTrial:
		notes = append(notes, "the next boot has the boot arguments on trial; berth tune commit after it makes them permanent, and else the boot after that is the old one")
	}
	now := bootargs.Kernels(tree)
	for _, kernel := range now {
		if !slices.Contains(a.Args.Kernels, kernel) {
			notes = append(notes, fmt.Sprintf("kernel %s was installed since", kernel))
		}
	}
	if kernel := a.Args.Kernel; a.Args.Stage == OnTrial && len(notes) > 1 {
		notes = append(notes, fmt.Sprintf("the boot for trial starts %s: berth tune rollback and apply have it start the other one", kernel))
	}
	if kernel := a.Args.Kernel; a.Args.Stage == OnTrial && !slices.Contains(now, kernel) {
		notes = append(notes, fmt.Sprintf("kernel %s, which the boot for trial starts, is gone: berth tune rollback and apply", kernel))
	}
	return notes
}
