package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-project/berth/internal/capability/localize/narrowing"
	"github.com/berth-project/berth/internal/capability/tune"
	"github.com/berth-project/berth/internal/capability/tune/profile"
	"github.com/berth-project/berth/internal/capability/tune/tuner"
	"github.com/berth-project/berth/internal/engine/apply"
	"github.com/berth-project/berth/internal/engine/driver/irqbalance"
	"github.com/berth-project/berth/internal/engine/driver/systemd"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/internal/linux/kernel"
	"github.com/berth-project/berth/internal/linux/knob"
	"github.com/berth-project/berth/internal/value/table"
)

// Bounds of --confirm: an apply may take a second, and nobody waits longer than a day.
const (
	leastConfirm = time.Second
	mostConfirm  = 24 * time.Hour
)

// appliedRow is one setting of an apply. Its JSON is a stable contract.
type appliedRow struct {
	Knob     string `json:"knob"`
	Instance string `json:"instance"`
	File     string `json:"file"`
	Was      string `json:"was"`
	Want     string `json:"want"`
	// State is written, partial, stands, left or nextBoot.
	State string `json:"state"`
	Why   string `json:"why"`

	ownSlice bool
}

// appliedProfile is what berth tune apply did. Its JSON is a stable contract.
type appliedProfile struct {
	Profile string `json:"profile"`
	Writes  int    `json:"writes"`
	// Deadline is when everything is undone unless it is committed. It is empty once committed.
	Deadline string       `json:"deadline"`
	Settings []appliedRow `json:"settings"`
	// nothing says why there was nothing to apply, "" if there was.
	nothing string
}

func newTuneApplyCommand(g *globals) *cobra.Command {
	var config string
	var confirm time.Duration
	var committed, noTrial bool
	cmd := &cobra.Command{
		Use:   "apply PROFILE",
		Short: "Apply a profile; it is undone after 2 minutes unless you commit it",
		Long: `Writes the settings that berth tune plan shows, and reads each value back. It skips
values that are in effect already. The originals and the deadline are on disk before the
first write, and the first failure undoes everything. At the deadline everything is
undone, even if this process or its session was killed. berth tune commit removes the
deadline.

Boot arguments take effect at the next boot, which is a trial: an entry that boots once.
berth tune commit after that boot makes them permanent; without it the following boot is
the old one. --no-trial writes them for all boots at once, which a boot loader without
one-time entries needs.

--committed applies again, after a boot, what you committed before. It has no deadline.
It names the settings of units that do not run, and applies the rest. If nothing was
committed, it says so and succeeds: a boot, or a power cut, ended what was not.

Exit code 3: this kernel lacks a required setting, it cannot be set from here, or a unit
could not start with its CPUs or memory nodes. Exit code 4: another program or the agent
sets the same setting, another profile is applied, or a value changed while the command
ran. The command then writes nothing, or it undoes what it has written, for example if a
value changed.`,
		Example: `  berth tune apply low-latency
  berth tune apply ./db.yaml --confirm 10m
  berth tune apply --committed`,
		ValidArgsFunction: g.completeProfile,
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case !committed:
				return oneArg("the name of a profile or a path")(cmd, args)
			case len(args) > 0:
				return usageError(fmt.Errorf("--committed takes no profile, as it applies the one that was committed; got %q", args[0]))
			}
			return nil
		},
		RunE: formatted(g, func(cmd *cobra.Command, args []string, format string) error {
			if err := checkConfirm(confirm); err != nil {
				return err
			}
			job, closeJob, err := g.tuneJob(cmd, config)
			if err != nil {
				return err
			}
			defer closeJob()
			if committed {
				err = job.again()
			} else {
				err = job.first(args[0], tuner.Order{Confirm: confirm, NoTrial: noTrial})
			}
			if err != nil {
				return err
			}
			job.rows()
			return show(cmd.OutOrStdout(), format, job.result, func(w io.Writer) error { return printApplied(w, job.result) })
		}),
	}
	configFlag(cmd, &config)
	cmd.Flags().DurationVar(&confirm, "confirm", 2*time.Minute, "how long until everything is undone unless you commit it")
	cmd.Flags().BoolVar(&committed, "committed", false, "apply the committed profile that is not in force, as after a boot")
	cmd.Flags().BoolVar(&noTrial, "no-trial", false, "set the boot arguments for all boots, without a trial boot")
	return cmd
}

// checkConfirm checks how long a host may stay uncommitted.
func checkConfirm(confirm time.Duration) error {
	if confirm < leastConfirm || confirm > mostConfirm {
		return usageError(fmt.Errorf("--confirm %v: allowed: %v to %v", confirm, leastConfirm, mostConfirm))
	}
	return nil
}

// tuneJob is one command that works with the applied profile.
type tuneJob struct {
	g      *globals
	cmd    *cobra.Command
	root   *hostfs.Root
	host   tuner.Host
	result appliedProfile
	// parts and done are what an apply had to do and what it did, both empty if there was nothing to apply.
	parts tune.Division
	done  tuner.Result
}

// tuneJob opens the host, or the directory that --root names.
func (g *globals) tuneJob(cmd *cobra.Command, config string) (*tuneJob, func(), error) {
	stateDir, err := g.tuneState(cmd, config)
	if err != nil {
		return nil, nil, err
	}
	host, closeHost, err := g.tuneHost(stateDir)
	if err == nil {
		host.Keep, err = g.keep(cmd, config)
		if host.Groups != nil {
			host.Mems = narrowing.OnHost(host.Root, host.Groups, kernel.Monotonic).Within(cmd.Context())
		}
	}
	if err != nil {
		closeHost()
		return nil, nil, err
	}
	return &tuneJob{g: g, cmd: cmd, root: host.Root, host: host}, closeHost, nil
}

// tuneState returns the stateDir of the agent's file, or the default. With --root it is inside that tree.
func (g *globals) tuneState(cmd *cobra.Command, config string) (string, error) {
	cfg, _, err := findState(cmd, config)
	return g.tuneDir(cfg.StateDir), err
}

// tuneDir returns stateDir below the root of the command.
func (g *globals) tuneDir(stateDir string) string {
	if g.Root == "/" {
		return stateDir
	}
	return filepath.Join(g.Root, stateDir)
}

// tuneHost opens the host, or the directory that --root names. The host has units only if it is not a directory,
// because thread ids mean nothing there. The returned function releases the resources, also after an error.
func (g *globals) tuneHost(stateDir string) (tuner.Host, func(), error) {
	root, err := g.openRoot()
	if err != nil {
		return tuner.Host{}, func() {}, err
	}
	closeRoot := func() { _ = root.Close() } // nothing is written through it
	boot, err := kernel.BootID(root)
	if err != nil {
		return tuner.Host{}, closeRoot, g.hostError(err)
	}
	host := tuner.Host{
		Dir: filepath.Join(stateDir, tuner.Subdir), AgentDir: stateDir, Root: root, Kernel: tuner.KernelOf(root), Boot: boot,
		Now: time.Now, Boottime: kernel.Boottime,
	}
	if g.Root != "/" {
		return host, closeRoot, nil
	}
	if host.Groups, err = cgroup.Open(root); err != nil && !errors.Is(err, cgroup.ErrNoHierarchy) {
		return host, closeRoot, fmt.Errorf("find cgroups: %w", err)
	}
	if !systemd.Runs() {
		return host, closeRoot, nil
	}
	units := systemd.New()
	host.Units = units
	return host, func() { units.Close(); closeRoot() }, nil
}

// keep returns a function that starts this program again for the deadline. Paths are absolute, because it runs in
// another directory.
func (g *globals) keep(cmd *cobra.Command, config string) (func(tuner.Applied) error, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	root, err := filepath.Abs(g.Root)
	if err != nil {
		return nil, fmt.Errorf("--root %s: %w", g.Root, err)
	}
	args := []string{program, "tune", "deadline", "--root", root}
	if cmd.Flags().Changed("config") {
		file, err := filepath.Abs(config)
		if err != nil {
			return nil, fmt.Errorf("--config %s: %w", config, err)
		}
		args = append(args, "--config", file)
	}
	keeper := tuner.Keeper{Program: args, Final: exitDiffers, Systemd: g.Root == "/" && systemd.Runs()}
	return keeper.Keep, nil
}

// first applies a profile for the first time.
func (j *tuneJob) first(name string, o tuner.Order) error {
	whole, _, err := j.g.profiles().open(name)
	if err != nil {
		return err
	}
	return j.apply(whole, o)
}

// with calls work while it holds stateDir/tune.
func (j *tuneJob) with(work func(*tuner.Tuner) error) error {
	u, err := tuner.Open(j.host)
	if err != nil {
		return err
	}
	printNotes(j.cmd, u.Notes())
	return errors.Join(work(u), u.Close())
}

// apply plans a profile and applies it. It refuses a profile before it creates any state.
func (j *tuneJob) apply(whole profile.Document, o tuner.Order) error {
	plan, parts, err := j.divide(whole)
	if err != nil {
		return err
	}
	o.Profile, o.Boot = whole.Profile, plan.Boot.Want
	if err := j.host.CanBoot(o.Boot, o.NoTrial); err != nil {
		return err
	}
	return j.with(func(u *tuner.Tuner) error {
		if len(u.Notes()) > 0 { // an earlier apply was undone
			if plan, parts, err = j.divide(whole); err != nil {
				return err
			}
		}
		return j.write(u, o, plan, parts)
	})
}

// write applies the settings that a plan has to write.
func (j *tuneJob) write(u *tuner.Tuner, o tuner.Order, plan tune.Plan, parts tune.Division) error {
	o.Settings = parts.Write
	done, err := u.Apply(o)
	if err != nil {
		return applyError(err, done.Restored)
	}
	j.parts, j.done = parts, done
	j.result = appliedProfile{Profile: plan.Profile, Writes: done.Writes}
	record, is := u.Applied()
	j.ahead(record)
	if is && record.Phase == tuner.Trial {
		j.result.Deadline = record.Moment(kernel.Boottime(), time.Now()).Format(time.RFC3339)
	}
	return nil
}

// rows adds the settings of an apply to the result, each with its outcome. It waits for the kernel's counts of memory,
// so the lock of stateDir/tune must be free by then.
func (j *tuneJob) rows() {
	j.done.Count(j.cmd.Context(), knob.Open(j.root.FS()))
	j.result.Settings = appliedRows(j.parts, j.done)
}

// ahead prints notes about the next boot.
func (j *tuneJob) ahead(record tuner.Applied) {
	printNotes(j.cmd, record.Ahead(j.root.FS()))
}

// divide plans a profile. It refuses a profile that cannot be applied completely, or that conflicts with another
// program.
func (j *tuneJob) divide(whole profile.Document) (tune.Plan, tune.Division, error) {
	plan, err := j.g.plan(whole, j.root.FS())
	if err != nil {
		return plan, tune.Division{}, err
	}
	parts, err := j.divided(plan)
	return plan, parts, err
}

// divided divides the settings of a plan by what to do with them.
func (j *tuneJob) divided(plan tune.Plan) (tune.Division, error) {
	parts := plan.Divide()
	if err := errors.Join(blocked(parts.Blocked), j.noUnits(parts.Write)); err != nil {
		return parts, err
	}
	ban, err := j.ban(parts.Write)
	if err != nil {
		return parts, err
	}
	if err := j.peers(parts.Write, ban != nil); err != nil {
		return parts, err
	}
	if at := slices.IndexFunc(parts.Write, isInterrupt); ban != nil { // before the interrupts that irqbalance must ignore
		parts.Write = slices.Insert(parts.Write, at, *ban)
	}
	return parts, nil
}

// irqAffinity is the knob of each interrupt's CPUs.
const irqAffinity = "irq.affinity"

func isInterrupt(s tune.Setting) bool { return s.Knob == irqAffinity }

// ban returns the setting that makes irqbalance ignore the profile's interrupts. It is nil unless exactly one
// irqbalance runs and can be asked, or if the list is too long.
func (j *tuneJob) ban(settings []tune.Setting) (*tune.Setting, error) {
	var numbers []int
	for _, s := range settings {
		if n, err := strconv.Atoi(s.Instance); err == nil && isInterrupt(s) {
			numbers = append(numbers, n)
		}
	}
	if len(numbers) == 0 {
		return nil, nil
	}
	found := irqbalance.Find(j.root)
	if len(found) != 1 { // with several, one moves what another ignores
		return nil, nil
	}
	now, with, err := irqbalance.With(j.root, found[0], numbers)
	if err != nil || len(with) > irqbalance.Longest {
		return nil, err
	}
	return &tune.Setting{
		Knob: irqAffinity, Instance: "ban of irqbalance", File: found[0], Now: string(now), Want: string(with), Write: string(with),
		Support: knob.Settable, Phase: knob.Interrupts,
	}, nil
}

// blocked returns the error for settings without which the profile is refused.
func blocked(settings []tune.Setting) error {
	var errs []error
	for _, s := range settings {
		errs = append(errs, fmt.Errorf("%w: %s: %s", ErrUnsupported, s.Name(), s.Why))
	}
	return errors.Join(errs...)
}

// noUnits returns an error for settings of units if the host has no units.
func (j *tuneJob) noUnits(settings []tune.Setting) error {
	i := slices.IndexFunc(settings, tune.Setting.OfGroup)
	if i < 0 || j.host.Groups != nil {
		return nil
	}
	return fmt.Errorf("%w: %s: %w", ErrUnsupported, settings[i].Name(), tuner.ErrNoUnits)
}

// peers returns an error for settings that another program also sets. It ignores an irqbalance with a ban.
func (j *tuneJob) peers(settings []tune.Setting, bans bool) error {
	host := knob.Open(j.root.FS())
	scheduler, err := kernel.SchedExt(j.root)
	if err != nil {
		return err
	}
	running := tune.Running{Programs: host.Programs(), SchedExt: scheduler != ""}
	active := host.Text("/etc/tuned/active_profile")
	if file, text, found := included(j.root.FS())(active); active != "" && found {
		running.TuneD = tune.Read(file, text, host, included(j.root.FS())).Knobs()
	}
	var errs []error
	for _, p := range tune.Peers(running) {
		if bans && p.Name == tune.Irqbalance {
			continue
		}
		if both := p.Sets(settings); len(both) > 0 {
			errs = append(errs, fmt.Errorf("%w: %s runs and sets %s as well: %s", ErrDiffers, p.Name, strings.Join(both, ", "), p.Remedy))
		}
	}
	return errors.Join(errs...)
}

// applyError adds the outcome of the rollback to an error.
func applyError(err error, restored []apply.Restored) error {
	if !errors.Is(err, tuner.ErrUndone) {
		return err
	}
	left := outcome(restored)
	if left == nil {
		return fmt.Errorf("%w; all is as before", err)
	}
	return errors.Join(err, left)
}

// appliedRows returns the settings, each with its outcome.
func appliedRows(parts tune.Division, done tuner.Result) []appliedRow {
	rows := []appliedRow{}
	add := func(s tune.Setting, state, why string) {
		rows = append(rows, appliedRow{Knob: s.Knob, Instance: s.Instance, File: s.File, Was: s.Now, Want: s.Want, State: state, Why: why, ownSlice: s.OwnSlice})
	}
	said := func(of []tune.Setting, file string) (why string, is bool) {
		if i := slices.IndexFunc(of, func(s tune.Setting) bool { return s.File == file }); i >= 0 {
			return of[i].Why, true
		}
		return "", false
	}
	for _, s := range parts.Write {
		refused, left := said(done.Left, s.File)
		short, partly := said(done.Partly, s.File)
		switch {
		case left:
			add(s, "left", refused)
		case partly:
			add(s, "partial", short)
		case s.Stands():
			add(s, "stands", "")
		default:
			add(s, "written", "")
		}
	}
	for _, s := range parts.Left {
		add(s, "left", s.Why)
	}
	for _, s := range parts.Boot {
		if s.Stands() {
			add(s, "stands", "")
		} else {
			add(s, "nextBoot", "")
		}
	}
	return rows
}

func printApplied(w io.Writer, a appliedProfile) error {
	if a.nothing != "" {
		return printLine(w, a.nothing)
	}
	rows := [][]string{{"KNOB", "WAS", "NOW", "STATE", "FILE"}}
	var notes []string
	for _, r := range a.Settings {
		now := r.Want
		if r.State == "nextBoot" {
			now = r.Was
		}
		if r.State == "left" {
			now = r.Was
			notes = append(notes, fmt.Sprintf("note: %s is left as it is: %s\n", tune.Name(r.Knob, r.Instance), r.Why))
		}
		if r.State == "partial" {
			notes = append(notes, fmt.Sprintf("note: %s: %s; berth tune verify shows how much there is\n", tune.Name(r.Knob, r.Instance), r.Why))
		}
		if r.ownSlice && r.State != "left" {
			notes = append(notes, fmt.Sprintf("note: %s runs: %s\n", r.Instance, tune.Joins(r.Instance)))
		}
		rows = append(rows, []string{tune.Name(r.Knob, r.Instance), textOrDash(r.Was), textOrDash(now), r.State, textOrDash(r.File)})
	}
	if err := table.Write(w, rows); err != nil {
		return err
	}
	end := fmt.Sprintf("\nprofile %s is applied, %d files written; nothing is to be committed\n", a.Profile, a.Writes)
	if a.Deadline != "" {
		end = fmt.Sprintf("\nprofile %s is applied, %d files written; at %s all is undone, unless: berth tune commit\n", a.Profile, a.Writes, a.Deadline)
	}
	return printLine(w, "\n"+strings.Join(notes, "")+end)
}
