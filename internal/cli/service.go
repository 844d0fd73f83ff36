package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-project/berth/deploy"
	"github.com/berth-project/berth/internal/agent/service"
	"github.com/berth-project/berth/internal/engine/driver/systemd"
	"github.com/berth-project/berth/internal/engine/journal"
	"github.com/berth-project/berth/internal/intent/manifest"
)

// serviceTimeout bounds systemd's work: an agent has 30 s to stop.
const serviceTimeout = time.Minute

// serviceReport is the output of berth install-systemd; its JSON is a stable contract.
type serviceReport struct {
	// Unit is the unit file.
	Unit string `json:"unit"`
	// Steps are the completed steps, or in a dry run the planned steps.
	Steps  []string `json:"steps"`
	DryRun bool     `json:"dryRun"`
	// Text is the text of the unit, if it is or would be written.
	Text string `json:"text,omitempty"`
	// Restored are the values that a removal restored, or would restore.
	Restored []restored `json:"restored,omitempty"`
}

// serviceFlags are the flags of berth install-systemd.
type serviceFlags struct {
	config         string
	dryRun, remove bool
}

func newServiceCommand(g *globals) *cobra.Command {
	var f serviceFlags
	cmd := &cobra.Command{
		Use:   "install-systemd",
		Short: "Run the agent of this host as a service of systemd",
		Long: `Writes the unit file of the packages for this program to
/etc/systemd/system/berth-agent.service. systemd then starts the agent now and at every
boot. If the agent's file is missing, the command creates /etc/berth/agent.yaml, which
changes no workload. A second call replaces the unit and restarts the agent; pinned
workloads stay pinned.

The command never replaces or removes a unit that it did not write, such as yours or
that of a package (exit code 4). It refuses a program that a user other than root could
replace (exit code 2). With --remove it stops the agent, removes the unit and puts back
every original value, as berth rollback does. The agent's file stays.`,
		Example: "  berth install-systemd --dry-run\n  berth install-systemd --remove",
		Args:    noArgs,
		RunE: formatted(g, func(cmd *cobra.Command, _ []string, format string) error {
			if g.Root != "/" && !f.dryRun {
				return usageError(fmt.Errorf("--root %s: %s changes the live host without --dry-run; allowed: /", g.Root, cmd.CommandPath()))
			}
			if !f.dryRun && !systemd.Runs() {
				return fmt.Errorf("%w: systemd does not run this host", ErrUnsupported)
			}
			host := service.Host{Root: g.Root, Systemd: service.Bus{}}
			do := installService
			if f.remove {
				do = g.removeService
			}
			report, err := do(cmd, host, f)
			if err != nil && report.Restored == nil {
				return foreignDiffers(err)
			}
			return errors.Join(show(cmd.OutOrStdout(), format, report, report.print), err)
		}),
	}
	configFlag(cmd, &f.config)
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "print the unit and what would be done, and change nothing")
	cmd.Flags().BoolVar(&f.remove, "remove", false, "stop the agent, remove the unit and put every original value back")
	return cmd
}

// foreignDiffers gives errors of package service their documented exit class.
func foreignDiffers(err error) error {
	switch {
	case errors.Is(err, service.ErrForeign):
		return fmt.Errorf("%w: %w", ErrDiffers, err)
	case errors.Is(err, service.ErrPath):
		return usageError(err)
	}
	return err
}

// installService creates the agent's file if it is missing, and installs the unit.
func installService(cmd *cobra.Command, host service.Host, f serviceFlags) (serviceReport, error) {
	report := serviceReport{Unit: host.File(), DryRun: f.dryRun}
	program, err := os.Executable()
	if err != nil {
		return report, fmt.Errorf("find this program: %w", err)
	}
	if program, err = filepath.EvalSymlinks(program); err != nil {
		return report, fmt.Errorf("find this program: %w", err)
	}
	config, err := filepath.Abs(f.config)
	if err != nil {
		return report, fmt.Errorf("--config %s: %w", f.config, err)
	}
	if report.Text, err = service.Text(deploy.Unit(), program, config); err != nil {
		return report, err
	}
	doubts, err := service.Trusted(program)
	if err != nil {
		return report, err
	}
	printNotes(cmd, doubts)
	missing, err := checkService(cmd, host, f.config)
	if err != nil {
		return report, err
	}
	if missing {
		report.Steps = append(report.Steps, "write "+manifest.DefaultConfigPath)
	}
	report.Steps = append(report.Steps, "write "+report.Unit, "enable "+service.Name, "start "+service.Name)
	if f.dryRun {
		return report, nil
	}
	if missing {
		if err := writeFirstConfig(manifest.DefaultConfigPath); err != nil {
			return report, err
		}
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), serviceTimeout)
	defer cancel()
	return report, host.Install(ctx, report.Text)
}

// checkService refuses an agent that would not start or would be a second one. It reports whether the agent's file is
// missing.
func checkService(cmd *cobra.Command, host service.Host, config string) (missing bool, err error) {
	installed, err := host.Check()
	if err != nil {
		return false, err
	}
	cfg, isThere, err := findState(cmd, config)
	if err != nil {
		return false, err
	}
	if filepath.Clean(cfg.StateDir) != service.StateDir {
		return false, usageError(fmt.Errorf("%s: stateDir %s: the unit lets the agent write its state to %s only", config, cfg.StateDir, service.StateDir))
	}
	pid, alive, err := journal.Holder(cfg.StateDir)
	if err != nil {
		return false, fmt.Errorf("stateDir: %w", err)
	}
	if alive && !installed {
		return false, fmt.Errorf("%w: a Berth agent runs, process %d: stop it first", ErrDiffers, pid)
	}
	return !isThere, nil
}

// writeFirstConfig creates the packages' agent file, and the directory that it names.
func writeFirstConfig(path string) error {
	const readable, searchable = 0o644, 0o755
	if err := os.MkdirAll(filepath.Join(filepath.Dir(path), "workloads"), searchable); err != nil {
		return fmt.Errorf("the agent's file: %w", err)
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, readable)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("the agent's file: %w", err)
	}
	_, err = file.WriteString(deploy.AgentFile())
	if err := errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("the agent's file: %w", err)
	}
	return nil
}

// removeService removes the unit and restores everything. It continues without a unit, because an earlier call may have
// ended after the removal.
func (g *globals) removeService(cmd *cobra.Command, host service.Host, f serviceFlags) (serviceReport, error) {
	report := serviceReport{Unit: host.File(), DryRun: f.dryRun}
	ctx, cancel := context.WithTimeout(cmd.Context(), serviceTimeout)
	defer cancel()
	remove := func() (bool, error) { return host.Remove(ctx) }
	if f.dryRun {
		remove = host.Check
	}
	installed, err := remove()
	if err != nil {
		return report, err
	}
	if installed {
		report.Steps = append(report.Steps, "stop "+service.Name, "disable "+service.Name, "remove "+report.Unit)
	}
	report.Steps = append(report.Steps, "put every original value back")
	done, err := rollbackAll(cmd, g, f.config, rollbackOptions{dryRun: f.dryRun})
	if err != nil {
		return report, err
	}
	printNotes(cmd, done.notes)
	report.Restored = done.lines
	return report, done.failed
}

func (r serviceReport) print(w io.Writer) error {
	before := ""
	if r.DryRun {
		before = "would "
	}
	for _, step := range r.Steps {
		if err := writeOutput(w, before+step+"\n"); err != nil {
			return err
		}
	}
	if r.Restored != nil {
		return printRestored(w, r.Restored, r.DryRun)
	}
	if !r.DryRun {
		return nil
	}
	return writeOutput(w, fmt.Sprintf("\n# %s\n%s", r.Unit, r.Text))
}
