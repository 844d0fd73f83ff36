package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-project/berth/internal/capability/tune"
	"github.com/berth-project/berth/internal/capability/tune/tuner"
	"github.com/berth-project/berth/internal/engine/driver"
	"github.com/berth-project/berth/internal/engine/journal"
	"github.com/berth-project/berth/internal/intent/manifest"
	"github.com/berth-project/berth/internal/linux/kernel"
	"github.com/berth-project/berth/internal/proof/load"
	"github.com/berth-project/berth/internal/value/table"
)

func newTuneCommitCommand(g *globals) *cobra.Command {
	var config string
	cmd := &cobra.Command{
		Use:   "commit",
		Short: "Keep what was applied, until the next boot or a rollback",
		Long: `Removes the deadline of berth tune apply. After the deadline everything is undone
already, and the exit code is 4.

In a trial boot it makes the boot arguments permanent. Before that boot the boot
arguments stay pending.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			job, closeJob, err := g.tuneJob(cmd, config)
			if err != nil {
				return err
			}
			defer closeJob()
			_, is, err := tuner.Load(job.host.Dir)
			if err != nil {
				return err
			}
			if !is { // create no state for this
				return fmt.Errorf("commit: %w", tuner.ErrNotApplied)
			}
			return job.with(func(u *tuner.Tuner) error {
				if err := u.Commit(); err != nil {
					return fmt.Errorf("commit: %w", err)
				}
				record, _ := u.Applied()
				job.ahead(record)
				if record.Outlives() && record.Args.Stage == tuner.Permanent {
					return writeText(cmd.OutOrStdout(), "profile "+record.Profile.Name+" is committed; its boot arguments stay for good, or until berth tune rollback\n")
				}
				return writeText(cmd.OutOrStdout(), "profile "+record.Profile.Name+" stays until the next boot, or berth tune rollback\n")
			})
		},
	}
	configFlag(cmd, &config)
	return cmd
}

func newTuneRollbackCommand(g *globals) *cobra.Command {
	var config string
	var o rollbackOptions
	cmd := &cobra.Command{
		Use:   "rollback",
		Short: "Put back what was before the profile that is applied",
		Long: `Puts back every original value, in the reverse order of the apply, also after a crash or a
commit. It reports a value that another program has changed since, and does not overwrite
it (exit code 4). The original and the profile stay on record until the value is the
original again, or until --leave-drifted accepts the other value. The agent may run at
the same time. berth rollback does the same, and also puts back the agent's changes.`,
		Args: noArgs,
		RunE: formatted(g, func(cmd *cobra.Command, _ []string, format string) error {
			stateDir, _, err := whereChanged(cmd, config)
			if err != nil {
				return err
			}
			if err := g.checkRoot(); err != nil {
				return err
			}
			done, err := g.undoTune(g.tuneDir(stateDir), o)
			if err != nil {
				return err
			}
			done = done.parted()
			printNotes(cmd, done.notes)
			err = show(cmd.OutOrStdout(), format, done.lines, func(w io.Writer) error { return printRestored(w, done.lines, o.dryRun) })
			return errors.Join(err, done.failed)
		}),
	}
	configFlag(cmd, &config)
	o.flags(cmd)
	return cmd
}

// undoTune rolls back what profiles changed. With nothing to undo it creates no state.
func (g *globals) undoTune(stateDir string, o rollbackOptions) (undone, error) {
	dir := filepath.Join(stateDir, tuner.Subdir)
	snapshot, err := journal.Load(dir, driver.Values())
	if err != nil && !isMissing(err) { // a recording has no journal
		return undone{}, fmt.Errorf("stateDir/tune: %w", err)
	}
	record, is, err := tuner.Load(dir)
	if err != nil {
		return undone{}, err
	}
	if !is && len(snapshot.Entries) == 0 && snapshot.Damage == nil {
		return undone{lines: []restored{}}, nil
	}
	host, closeHost, err := g.tuneHost(stateDir)
	defer closeHost()
	if err != nil {
		return undone{}, err
	}
	host.Salvage, host.Leave = true, o.leave
	if o.dryRun {
		entries, dropped := snapshot.Of(host.Boot)
		all := tuner.Compare(host, record, entries)
		return undone{lineUp(all, true), journal.Recovery{Torn: snapshot.Torn, Dropped: dropped}.Notes(), errors.Join(outcome(all), snapshot.Damage)}, nil
	}
	u, err := tuner.Open(host)
	if err != nil {
		return undone{}, err
	}
	all := u.Rollback()
	left, stays := u.Applied()
	failed := errors.Join(outcome(all), snapshot.Damage)
	return undone{lineUp(all, false), u.Notes(), whole(left, stays, failed)}, u.Close()
}

// whole returns the errors of a rollback. A profile that stays on record is also an error.
func whole(left tuner.Applied, stays bool, failed error) error {
	if stays && failed == nil {
		return fmt.Errorf("%w: profile %s stays on record; the notes say why", ErrDiffers, left.Profile.Name)
	}
	return failed
}

// verified is the result of berth tune verify. Its JSON is a stable contract.
type verified struct {
	Profile  string          `json:"profile"`
	Settings []tune.Verified `json:"settings"`

	notes []string
}

func newTuneVerifyCommand(g *globals) *cobra.Command {
	var config string
	cmd := &cobra.Command{
		Use:         "verify",
		Short:       "Compare the host with the profile that is applied",
		Annotations: promise(),
		Long: `Compares each setting of the applied profile with the host. Its state is one of:
  - ok: the host has the value
  - drift: another program changed the value
  - ignored: the file has the value, but the kernel does something else: an interrupt, for
    example, fires on another CPU
  - pending: an interrupt moves when it fires next
  - dormant: the CPUs are offline, or the unit did not run after a boot
  - partial: the kernel had no memory for all huge pages
  - pendingReboot: the next boot brings the boot argument
  - absent, unreadable: the file is missing, or cannot be read
  - unknown: the file has the value; a note says why more is not known

If the profile has cpu.resumeLatency, the command reads the kernel's counts of idle states
twice, 200 ms apart.

Exit code 4 says that a setting is not ok, pending, dormant or unknown, or that no profile
is applied. The command writes nothing.`,
		Args: noArgs,
		RunE: formatted(g, func(cmd *cobra.Command, _ []string, format string) error {
			stateDir, err := g.tuneState(cmd, config)
			if err != nil {
				return err
			}
			if err := g.checkRoot(); err != nil {
				return err
			}
			result, err := g.verify(cmd.Context(), filepath.Join(stateDir, tuner.Subdir))
			if err != nil {
				return err
			}
			err = show(cmd.OutOrStdout(), format, result, func(w io.Writer) error { return printVerified(w, result) })
			return errors.Join(err, verdict(result))
		}),
	}
	configFlag(cmd, &config)
	return cmd
}

// verify reads the record, without its lock, and the host. The counts of a recording stand still.
func (g *globals) verify(ctx context.Context, dir string) (verified, error) {
	record, is, err := tuner.Load(dir)
	if err != nil {
		return verified{}, err
	}
	if !is {
		return verified{}, fmt.Errorf("verify: %w", tuner.ErrNotApplied)
	}
	root, err := g.openRoot()
	if err != nil {
		return verified{}, err
	}
	defer root.Close()
	tree := root.FS()
	notes := record.Ahead(tree)
	originals, err := journal.Load(dir, driver.Values())
	if err != nil {
		notes = append(notes, fmt.Sprintf("stateDir/tune: %v: of how many huge pages the kernel had memory is not known, and fewer than desired are a drift", err))
	}
	pause := load.Pause
	if root.Path() != "/" {
		pause = nil
	}
	rows, err := record.VerifyOver(ctx, tree, tuner.KernelOf(root), originals.Entries, pause)
	return verified{Profile: record.Profile.Name, Settings: rows, notes: notes}, err
}

// verdict returns the errors of settings that are not ok.
func verdict(v verified) error {
	var errs []error
	for _, s := range v.Settings {
		if s.Differs() {
			errs = append(errs, fmt.Errorf("%w: %s", ErrDiffers, s))
		}
	}
	return errors.Join(errs...)
}

func printVerified(w io.Writer, v verified) error {
	rows := [][]string{{"KNOB", "WANT", "EFFECTIVE", "STATE", "FILE"}}
	for _, s := range v.Settings {
		rows = append(rows, []string{tune.Name(s.Knob, s.Instance), s.Want, textOrDash(s.Effective), string(s.State), s.File})
	}
	if err := table.Write(w, rows); err != nil {
		return err
	}
	for _, note := range v.notes {
		if err := printLine(w, "\nnote: "+note); err != nil {
			return err
		}
	}
	for _, note := range unknown(v.Settings) {
		if err := printLine(w, "\nnote: "+note); err != nil {
			return err
		}
	}
	for _, s := range v.Settings {
		if s.Elsewhere == 0 {
			continue
		}
		if err := printLine(w, fmt.Sprintf("\nnote: %s: %s", tune.Name(s.Knob, s.Instance), tuner.ElsewhereText(s.Elsewhere, s.Want))); err != nil {
			return err
		}
	}
	return printAbout(w, v.Settings)
}

// unknown returns a sentence for each reason why more than the files is not known. A host may have hundreds of CPUs with
// the same reason.
func unknown(settings []tune.Verified) (notes []string) {
	of := map[string][]string{}
	for _, s := range settings {
		if s.State == tune.Unproven {
			of[s.Reason] = append(of[s.Reason], tune.Name(s.Knob, s.Instance))
		}
	}
	for _, reason := range slices.Sorted(maps.Keys(of)) {
		who := of[reason][0]
		if more := len(of[reason]) - 1; more > 0 {
			who += fmt.Sprintf(" and %d more", more)
		}
		notes = append(notes, fmt.Sprintf("%s: the file has the value, and whether the kernel keeps to it is unknown: %s", who, reason))
	}
	return notes
}

// printAbout prints notes that explain the states of settings.
func printAbout(w io.Writer, settings []tune.Verified) error {
	for _, about := range []struct {
		is   func(tune.Verified) bool
		note string
	}{
		{
			func(s tune.Verified) bool { return s.State == tune.Pending },
			"the kernel moves an interrupt that is pending when it fires next",
		},
		{
			func(s tune.Verified) bool { return s.State == tune.Dormant && s.Reason != "" },
			"the last apply left out the dormant settings without a file: berth tune apply --committed sets them",
		},
		{
			func(s tune.Verified) bool { return s.Knob == tune.UnitPolicy || s.Knob == tune.UnitSlice },
			"policies and slices of units are " + tune.NotDurable,
		},
	} {
		if !slices.ContainsFunc(settings, about.is) {
			continue
		}
		if err := printLine(w, "\nnote: "+about.note); err != nil {
			return err
		}
	}
	return nil
}

// newTuneJobCommand returns a hidden command on the profile of this host, which other programs than users start.
func newTuneJobCommand(g *globals, name, short string, run func(*tuneJob) error) *cobra.Command {
	var config string
	cmd := &cobra.Command{
		Use:    name,
		Short:  short,
		Hidden: true,
		Args:   noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			job, closeJob, err := g.tuneJob(cmd, config)
			if err != nil {
				return err
			}
			defer closeJob()
			return run(job)
		},
	}
	configFlag(cmd, &config)
	return cmd
}

// newTuneDeadlineCommand returns the command that enforces a deadline. apply starts it directly or through systemd.
func newTuneDeadlineCommand(g *globals) *cobra.Command {
	return newTuneJobCommand(g, "deadline", "Wait for the deadline of the applied profile, then undo it", func(j *tuneJob) error {
		notes, err := tuner.Await(j.cmd.Context(), j.host)
		for _, note := range notes {
			_, _ = fmt.Fprintf(j.cmd.OutOrStdout(), "%s\n", note)
		}
		return err
	})
}

// settle undoes a profile whose deadline passed without a keeper, and finishes a killed rollback. It runs before every
// command on the host itself and blocks none. If nothing is due, it only reads some files.
func (g *globals) settle(cmd *cobra.Command) {
	if g.Root != "/" || os.Geteuid() != 0 || !settles(cmd) {
		return
	}
	config, err := cmd.Flags().GetString("config")
	if err != nil {
		config = manifest.DefaultConfigPath
	}
	stateDir, err := g.tuneState(cmd, config)
	if err != nil {
		return // the command itself reports the file's error
	}
	record, is, err := tuner.Load(filepath.Join(stateDir, tuner.Subdir))
	if err != nil || !is {
		return
	}
	host, closeHost, err := g.tuneHost(stateDir)
	defer closeHost()
	if err != nil || !record.Due(host.Boot, kernel.Boottime()) {
		return
	}
	if _, promised := cmd.Annotations[readsOnly]; promised {
		printNote(cmd, "profile %s is due to be undone; this command leaves it, berth tune rollback undoes it", record.Profile.Name)
		return
	}
	host.Salvage = true // restore what is readable in a damaged journal
	u, err := tuner.Open(host)
	if errors.Is(err, journal.ErrLocked) {
		return // an apply or an undo is running
	}
	if err != nil {
		printNote(cmd, "a host profile is due to be undone: %v", err)
		return
	}
	printNotes(cmd, u.Notes())
	_ = u.Close() // everything due was undone
}

// settles reports whether a command may undo what is due. These commands may not: shell completion, commands that
// promise to change nothing, and commands of a pod, whose name spaces show other values than the host's. Also excluded
// are the agent and the cleanup of its unit (rollback --owner). The unit may not write all those values, and its next
// agent starts another keeper.
func settles(cmd *cobra.Command) bool {
	switch cmd.Name() {
	case "agent", "deadline", "help", cobra.ShellCompRequestCmd, cobra.ShellCompNoDescRequestCmd:
		return false
	}
	if cmd.HasParent() && cmd.Parent().Name() == "completion" {
		return false
	}
	for _, flag := range []string{"dry-run", "check-health", "node-name", "owner"} {
		if f := cmd.Flags().Lookup(flag); f != nil && f.Changed {
			return false
		}
	}
	return true
}

// readsOnly marks a command whose help promises that it writes nothing to the host. The mark stands beside that help.
const readsOnly = "berth.dev/reads-only"

// promise returns the annotations of such a command.
func promise() map[string]string { return map[string]string{readsOnly: ""} }

// inForce describes the applied profile, for berth tune list, and for berth status without an agent.
type inForce struct {
	Profile string    `json:"profile"`
	Phase   string    `json:"phase"`
	Since   time.Time `json:"since"`
	// Deadline is when everything is undone unless it is committed. It is empty if there is no deadline.
	Deadline string `json:"deadline"`
	// ThisBoot is true if the profile was applied in this boot; a boot ends it.
	ThisBoot bool `json:"thisBoot"`
	// Undone is true if an apply of the committed profile was undone.
	Undone bool `json:"undone,omitempty"`
	// Boot says which boots have the boot arguments: trial, permanent or over.
	Boot string `json:"boot,omitempty"`
	// Unknown is why it is unknown what is applied.
	Unknown string `json:"unknown,omitempty"`
}

// inForceOr reads what is applied, nil for nothing. It returns errors in Unknown, so that profiles can be listed
// without rights to the state directory or with an invalid agent's file.
func (g *globals) inForceOr(cmd *cobra.Command, config string) *inForce {
	stateDir, err := g.tuneState(cmd, config)
	if err == nil {
		var f *inForce
		if f, err = g.inForce(stateDir); err == nil {
			return f
		}
	}
	return &inForce{Unknown: err.Error()}
}

// inForce reads what is applied, nil for nothing.
func (g *globals) inForce(stateDir string) (*inForce, error) {
	record, is, err := tuner.Load(filepath.Join(stateDir, tuner.Subdir))
	if err != nil || !is {
		return nil, err
	}
	root, closed, err := g.openReading()
	if err != nil {
		return nil, err
	}
	defer closed()
	boot, err := kernel.BootID(root)
	if err != nil {
		return nil, g.hostError(err)
	}
	f := &inForce{Profile: record.Profile.Name, Phase: string(record.Phase), Since: record.Since, ThisBoot: record.Stands(boot), Undone: record.IsUndone()}
	if record.Args != nil {
		f.Boot = string(record.Args.Stage)
	}
	if record.Phase == tuner.Trial && f.ThisBoot {
		f.Deadline = record.Moment(kernel.Boottime(), time.Now()).Format(time.RFC3339)
	}
	return f, nil
}

func (f *inForce) String() string {
	switch {
	case f == nil:
		return "no profile is applied"
	case f.Unknown != "":
		return "it is not known whether a profile is applied: " + f.Unknown
	case !f.ThisBoot && f.Boot == string(tuner.OnTrial):
		return fmt.Sprintf("profile %s was %s before the last boot; its boot arguments are on trial: berth tune verify, then berth tune commit", f.Profile, f.Phase)
	case f.Undone:
		return fmt.Sprintf("profile %s is committed, and not in force since an apply of it was undone: berth tune apply --committed", f.Profile)
	case !f.ThisBoot && f.Phase == string(tuner.Committed):
		return fmt.Sprintf("profile %s was committed before the last boot, which ended it: berth tune apply --committed", f.Profile)
	case !f.ThisBoot:
		return fmt.Sprintf("profile %s was not committed before the last boot, which ended it", f.Profile)
	case f.Deadline != "":
		return fmt.Sprintf("profile %s is applied; at %s all is undone, unless: berth tune commit", f.Profile, f.Deadline)
	case f.Phase == string(tuner.Committed):
		return fmt.Sprintf("profile %s is applied and committed", f.Profile)
	}
	return fmt.Sprintf("profile %s: %s: berth tune rollback", f.Profile, f.Phase)
}
