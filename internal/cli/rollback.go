package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-project/berth/internal/agent/orphans"
	"github.com/berth-project/berth/internal/capability"
	"github.com/berth-project/berth/internal/capability/tune/tuner"
	"github.com/berth-project/berth/internal/engine/apply"
	"github.com/berth-project/berth/internal/engine/driver"
	"github.com/berth-project/berth/internal/engine/driver/systemd"
	"github.com/berth-project/berth/internal/engine/driver/thread"
	"github.com/berth-project/berth/internal/engine/journal"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/internal/linux/kernel"
	"github.com/berth-project/berth/internal/value/table"
)

// restored is one line of berth rollback.
type restored struct {
	Group    string     `json:"group"`
	Knob     string     `json:"knob"`
	Original plan.Value `json:"original"`
	Found    plan.Value `json:"found,omitempty"`
	// File has the value. It is empty if no file has it or the file is gone.
	File     string `json:"file,omitempty"`
	Owner    string `json:"owner"`
	Workload string `json:"workload"`
	// Outcome is restored, already, partly, drifted, left, gone, dormant or failed. It is widened if the group now has
	// Value, because the original would overlap CPUs of pinned groups. In a dry run it is would restore, would restore
	// in part or would widen.
	Outcome string     `json:"outcome"`
	Value   plan.Value `json:"value,omitempty"`
	Error   string     `json:"error,omitempty"`
	shown   inFile
}

// inFile is a value in the format of its file. cgroup v1 names a limit differently than Berth, and a v1 file may hold
// only a part of Berth's value.
type inFile struct{ file, found, original string }

// inFileOf returns the inFile of a file whose texts differ from Berth's values, the zero inFile for other files.
func inFileOf(r apply.Restored) inFile {
	if r.Texts == nil || r.File == "" {
		return inFile{}
	}
	return inFile{r.File, r.Texts.Found, r.Texts.Original}
}

func newRollbackCommand(g *globals) *cobra.Command {
	var config string
	var o rollbackOptions
	var agents clusterRollback
	var cluster bool
	cmd := &cobra.Command{
		Use:   "rollback",
		Short: "Put every original value back, also after a crash",
		Long: `Puts back every value that Berth changed, from the originals in its journal. It reports
a value that another program has changed since, and does not overwrite it (exit code 4);
with --leave-drifted such a value stays for good. While an agent runs, the command does
nothing (exit code 4): stop the agent, which puts raised quotas back itself, and run the
command again for the CPU sets.

The command also puts back what a container runtime recorded in systemd, so that no
daemon-reload undoes the rollback; --dry-run does not ask systemd. Host profiles come
last (see berth tune rollback, which does not need a stopped agent).

With --cluster all agents of a cluster put everything back. The command sets
state: restore in the ConfigMap berth-system/berth-config, and waits until each live
agent is done. An agent counts as absent once its Lease has not changed for two minutes,
whatever the clocks say; the command names its node. It also names agents that are not
done in time (exit code 4); these go on. No agent writes to its node until you remove
the key state.

An agent in a pod does not reach systemd. If the container runtime uses the systemd
driver, the next daemon-reload without an agent brings back Berth's answers, until the
container ends. Once the agents are gone, run berth rollback on each such node.`,
		Example: "  berth rollback --dry-run\n  berth rollback --owner burst\n  berth rollback --cluster",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := agents.only(cmd, cluster); err != nil {
				return err
			}
			if cluster {
				return agents.run(cmd, g)
			}
			format, err := g.format("table", "json", "yaml")
			if err != nil {
				return err
			}
			if owners := append(capability.OwnersOf(g.capabilities), tuner.Owner); o.owner != "" && !slices.Contains(owners, o.owner) {
				return usageError(fmt.Errorf("--owner %q: allowed: %s", o.owner, joined(owners)))
			}
			done, err := rollbackAll(cmd, g, config, o)
			if err != nil {
				return err
			}
			printNotes(cmd, done.notes)
			err = show(cmd.OutOrStdout(), format, done.lines, func(w io.Writer) error {
				return printRestored(w, done.lines, o.dryRun)
			})
			return errors.Join(err, done.failed)
		},
	}
	configFlag(cmd, &config)
	cmd.Flags().StringVar((*string)(&o.owner), "owner", "", "only what this capability changed: "+joined(append(capability.OwnersOf(g.capabilities), tuner.Owner)))
	_ = cmd.RegisterFlagCompletionFunc("owner", // fails only for an unknown flag
		func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return g.owners(), cobra.ShellCompDirectiveNoFileComp
		})
	o.flags(cmd)
	cmd.Flags().BoolVar(&cluster, "cluster", false, "have the agents of a cluster put everything back")
	agents.flags(cmd, "with --cluster: ")
	return cmd
}

// owners returns the values of --owner, each with a description of its capability.
func (g *globals) owners() []string {
	var all []string
	for _, info := range g.capabilities {
		for _, owner := range info.Owners {
			all = append(all, cobra.CompletionWithDesc(string(owner), cmp.Or(info.Owned[owner], info.Summary)))
		}
	}
	all = append(all, cobra.CompletionWithDesc(string(tuner.Owner), "host profiles"))
	return all
}

// undone is the result of a rollback.
type undone struct {
	lines []restored // the outcome of each value
	notes []string   // remarks about the journal
	// failed is why some values were not restored, or are not all known.
	failed error
}

// rollbackOptions are the flags of a rollback.
type rollbackOptions struct {
	owner  plan.Owner // empty for every owner
	dryRun bool
	leave  bool // values that other programs changed
}

// flags adds the flags that both rollback commands have.
func (o *rollbackOptions) flags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&o.dryRun, "dry-run", false, "show what would be done and change nothing")
	cmd.Flags().BoolVar(&o.leave, "leave-drifted", false, "leave values that other programs changed, and forget their originals")
}

// rollbackAll restores what the agent changed, and what host profiles changed, which have their own journal.
func rollbackAll(cmd *cobra.Command, g *globals, config string, o rollbackOptions) (undone, error) {
	all := undone{lines: []restored{}}
	stateDir, isThere, err := whereChanged(cmd, config)
	if err != nil {
		return all, err
	}
	if o.owner != tuner.Owner {
		if !isThere {
			sayElsewhere(cmd, config, stateDir)
		}
		if all, err = rollback(g, stateDir, o); err != nil || o.owner != "" {
			return all.parted(), err
		}
	}
	profiles, err := g.undoTune(g.tuneDir(stateDir), o)
	if err == nil && !o.dryRun && slices.ContainsFunc(all.lines, isPart) { // a profile's partition may have had the missing CPUs
		again, failed := rollback(g, stateDir, o)
		all, err = all.followed(again), failed
	}
	all.lines = append(all.lines, profiles.lines...)
	all.notes = append(all.notes, profiles.notes...)
	all.failed = errors.Join(all.failed, profiles.failed, err)
	return all.parted(), nil
}

// of selects the entries to restore, and returns the changes for entries that cannot be restored yet.
func (o rollbackOptions) of(entries []journal.Entry, kinds apply.Kinds) (restore func(journal.Entry) bool, widen []plan.Change) {
	if o.owner == "" {
		return func(journal.Entry) bool { return true }, nil
	}
	return orphans.Of(entries, o.owner, apply.Stands(kinds, entries))
}

// rollback restores what an agent of this state directory changed.
func rollback(g *globals, stateDir string, o rollbackOptions) (undone, error) {
	if o.dryRun {
		return rehearse(g, stateDir, o)
	}
	root, err := g.openRoot()
	if err != nil {
		return undone{}, err
	}
	defer root.Close()
	boot, host, err := g.thisBoot(root)
	if err != nil {
		return undone{}, err
	}
	// Restore systemd's records, too: no agent will notice the next daemon-reload.
	options := apply.Options{Now: time.Now, Records: g.Root == "/" && systemd.Runs(), Leave: o.leave}
	var answers map[string]systemd.Answered
	var notes []string
	if options.Records && o.owner == "" {
		if answers, err = answersOf(stateDir, boot); err != nil {
			notes = append(notes, err.Error()+": containers that it names may keep Berth's answers with systemd")
		}
	}
	if nothing, err := isNothing(stateDir); nothing && len(answers) == 0 || err != nil {
		return undone{lines: []restored{}, notes: notes}, err
	}
	j, err := o.open(stateDir, boot)
	if locked := new(journal.LockedError); errors.As(err, &locked) {
		return undone{}, fmt.Errorf("a Berth agent runs, process %d: stop it, it puts raised quotas back itself, and run this again for the rest: %w", locked.PID, err)
	}
	if errors.Is(err, journal.ErrDamaged) {
		return undone{}, fmt.Errorf("stateDir: %w: berth rollback, without --owner, puts back what can be read and sets the file aside", err)
	}
	if err != nil {
		return undone{}, fmt.Errorf("stateDir: %w", err)
	}
	units := systemd.New()
	defer units.Close()
	kinds := driver.Kinds(host, units)
	applier := apply.New(kinds, j, options)
	entries := j.Entries()
	restore, widen := o.of(entries, kinds)
	lines, failed := widened(entries, applier.Apply(plan.Order(applier.Kinds(), widen)))
	all := applier.Restore(restore, false)
	found := j.Recovery()
	failed = errors.Join(failed, outcome(all), found.Damage)
	found.Damage = nil // the error already says it
	done := undone{append(lines, lineUp(all, false)...), append(notes, found.Notes()...), failed}
	return done.withAnswers(systemd.TakeBack(host, units, j, applier, answers)), j.Close()
}

// open opens the journal. A rollback of everything reads what is readable of a damaged journal. A rollback of one
// owner, which runs unattended when an agent ends, does not. It would leave holes in a journal that looks sound to the
// next agent.
func (o rollbackOptions) open(stateDir, boot string) (*journal.Journal, error) {
	if o.owner == "" {
		return journal.Salvage(stateDir, boot, driver.Values())
	}
	return journal.Open(stateDir, boot, driver.Values())
}

// settle restores what an ended agent moved (raised quotas, the boundary of offline work) if the next agent cannot
// start. It does nothing while another agent holds the directory.
func settle(cmd *cobra.Command, g *globals, stateDir string) {
	say := func(format string, values ...any) {
		_, _ = fmt.Fprintln(cmd.ErrOrStderr(), table.Clean(fmt.Sprintf(format, values...)))
	}
	for _, owner := range orphans.Movers() {
		done, err := rollback(g, stateDir, rollbackOptions{owner: owner})
		if errors.Is(err, journal.ErrLocked) {
			return
		}
		for _, l := range done.lines {
			say("note: %s of %s was %s and is %s: %s", l.Knob, l.Group, l.Found, cmp.Or(l.Value, l.Original), l.Outcome)
		}
		if err := errors.Join(err, done.failed); err != nil {
			say("note: not all of %s is put back: %v", owner, err)
		}
	}
}

// thisBoot returns the id of this boot and the control groups below root, to compare journal entries with.
func (g *globals) thisBoot(root *hostfs.Root) (string, *cgroup.Host, error) {
	boot, err := kernel.BootID(root)
	if err != nil {
		return "", nil, g.hostError(err)
	}
	host, err := cgroup.Open(root)
	if err != nil {
		return "", nil, g.hostError(fmt.Errorf("find cgroups: %w", err))
	}
	return boot, host, nil
}

// isNothing reports whether no agent ever worked in stateDir, or everything is restored. A rollback then creates no
// state.
func isNothing(stateDir string) (bool, error) {
	_, alive, err := journal.Holder(stateDir)
	if err != nil {
		return false, fmt.Errorf("stateDir: %w", err)
	}
	snapshot, err := journal.Load(stateDir, driver.Values())
	if err != nil {
		return false, fmt.Errorf("stateDir: %w", err)
	}
	return !alive && len(snapshot.Entries) == 0 && snapshot.Damage == nil && !snapshot.Torn, nil
}

// rehearse reports what a rollback would do, without lock and writes, so it also works while an agent runs.
func rehearse(g *globals, stateDir string, o rollbackOptions) (undone, error) {
	root, closed, err := g.openReading()
	if err != nil {
		return undone{}, err
	}
	defer closed()
	boot, host, err := g.thisBoot(root)
	if err != nil {
		return undone{}, err
	}
	snapshot, err := journal.Load(stateDir, driver.Values())
	if err != nil {
		return undone{}, fmt.Errorf("stateDir: %w", err)
	}
	entries, dropped := snapshot.Of(boot)
	kinds := driver.Kinds(host, nil)
	restore, widen := o.of(entries, kinds)
	lines := []restored{}
	for _, c := range widen {
		lines = append(lines, lineOf(entries, c, "would widen"))
	}
	entries = slices.DeleteFunc(entries, func(e journal.Entry) bool { return !restore(e) })
	all := apply.Compare(kinds, entries)
	notes := journal.Recovery{Torn: snapshot.Torn, Dropped: dropped}.Notes()
	if pid, alive, err := journal.Holder(stateDir); err == nil && alive {
		notes = append(notes, fmt.Sprintf("a Berth agent runs, process %d: a rollback is refused until it is stopped", pid))
	}
	return undone{append(lines, lineUp(all, true)...), notes, errors.Join(outcome(all), snapshot.Damage)}, nil
}

// widened returns the lines of values that are not restored yet, and the errors of failed changes.
func widened(entries []journal.Entry, results []apply.Result) (lines []restored, failed error) {
	lines = []restored{}
	for _, r := range results {
		line := lineOf(entries, r.Change, "widened")
		if !r.Applied() {
			line.Outcome, line.Error = string(apply.OutcomeFailed), r.Err.Error()
			failed = errors.Join(failed, r.Err)
		}
		lines = append(lines, line)
	}
	return lines, failed
}

// lineOf returns the line of an entry that for now gets a value other than its original.
func lineOf(entries []journal.Entry, c plan.Change, outcome string) restored {
	at := slices.IndexFunc(entries, func(e journal.Entry) bool { return e.Target == c.Target })
	return restored{
		Group: c.Object, Knob: c.Knob, Original: driver.Shown(c.Target, entries[at].Original), Found: driver.Shown(c.Target, c.From),
		Owner: string(entries[at].Owner), Workload: c.Workload, Outcome: outcome, Value: driver.Shown(c.Target, c.Value),
	}
}

func lineUp(all []apply.Restored, dryRun bool) []restored {
	lines := []restored{}
	for _, r := range all {
		line := restored{
			Group: r.Entry.Target.Object, Knob: r.Entry.Target.Knob, Original: driver.Shown(r.Entry.Target, r.Entry.Original), Found: driver.Shown(r.Entry.Target, r.Found),
			File: r.File, Owner: string(r.Entry.Owner), Workload: r.Entry.Workload, Outcome: string(r.Outcome), shown: inFileOf(r),
		}
		if dryRun && r.Outcome == apply.OutcomeRestored {
			line.Outcome = "would restore"
			if r.Part {
				line.Outcome += " in part"
			}
		}
		if r.Err != nil {
			line.Error = r.Err.Error()
		}
		lines = append(lines, line)
	}
	return lines
}

// outcome returns the error of a rollback that did not restore everything.
func outcome(all []apply.Restored) error {
	var errs []error
	for _, r := range all {
		switch r.Outcome {
		case apply.OutcomeDrifted:
			errs = append(errs, fmt.Errorf("%w: %s", ErrDiffers, byHand(r)))
		case apply.OutcomeFailed:
			errs = append(errs, r.Err)
		}
	}
	return errors.Join(errs...)
}

// isPart reports whether a line's value was restored in part.
func isPart(l restored) bool { return l.Outcome == string(apply.OutcomePartly) }

// parted adds notes about values of which a partition has the missing CPUs.
func (u undone) parted() undone {
	for _, l := range u.lines {
		if isPart(l) {
			u.notes = append(u.notes, fmt.Sprintf("%s of %s stays without the CPUs of a cpuset partition beside it, which a write would end: roll back once more when the partition is gone; the original is %s",
				l.Knob, l.Group, l.Original))
		}
	}
	if u.failed == nil && slices.ContainsFunc(u.lines, isPart) {
		u.failed = fmt.Errorf("%w: not all CPUs are back; the notes say why", ErrDiffers)
	}
	return u
}

// followed replaces the lines of values that were restored in part by the results of another attempt.
func (u undone) followed(again undone) undone {
	for i, l := range u.lines {
		at := slices.IndexFunc(again.lines, func(a restored) bool { return a.Group == l.Group && a.Knob == l.Knob })
		if isPart(l) && at >= 0 {
			u.lines[i] = again.lines[at]
		}
	}
	u.failed = errors.Join(u.failed, again.failed)
	return u
}

// byHand describes what to do about a value that another program changed.
func byHand(r apply.Restored) string {
	if r.Entry.Target.Driver == thread.Driver {
		return fmt.Sprintf("%s: %s: another program gave it that; give each what it had (chrt) if that is still wanted, or start the unit again, then roll back again; or --leave-drifted keeps what stands",
			r.Entry.Target, r.Found)
	}
	said := inFileOf(r)
	if said.file == "" {
		said = inFile{r.Entry.Target.String(), string(driver.Shown(r.Entry.Target, r.Found)), string(driver.Shown(r.Entry.Target, r.Entry.Original))}
	}
	return fmt.Sprintf("%s is %q, which Berth did not write; its original is %q: write that yourself if it is still wanted, then roll back again; or --leave-drifted keeps what stands",
		said.file, said.found, said.original)
}

func printRestored(w io.Writer, lines []restored, dryRun bool) error {
	var rows [][]string
	if len(lines) > 0 {
		rows = append(rows, []string{"GROUP", "KNOB", "FOUND", "ORIGINAL", "OUTCOME", "OWNER", "WORKLOAD"})
	}
	for _, l := range lines {
		knob, found, original := l.Knob, string(l.Found), string(l.Original)
		if l.shown.file != "" {
			knob, found, original = path.Base(l.shown.file), l.shown.found, l.shown.original
		}
		outcome := l.Outcome
		if l.Value != "" && l.Error == "" {
			outcome += " to " + string(l.Value)
		}
		rows = append(rows, []string{l.Group, knob, found, original, outcome, l.Owner, l.Workload})
	}
	err := table.Write(w, rows)
	switch {
	case len(lines) == 0:
		_, err = fmt.Fprintln(w, "nothing to put back")
	case dryRun && err == nil:
		_, err = fmt.Fprintln(w, "(dry run: nothing was changed)")
	}
	if err != nil {
		return fmt.Errorf("write output: %w", err)
	}
	return nil
}
