package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-project/berth/internal/capability/tune/tuner"
	"github.com/berth-project/berth/internal/doctor"
	"github.com/berth-project/berth/internal/engine/driver"
	"github.com/berth-project/berth/internal/engine/journal"
	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/internal/linux/kernel"
	"github.com/berth-project/berth/internal/proof/load"
	"github.com/berth-project/berth/internal/value/table"
)

// Range of the time between the two samples of berth doctor.
const (
	minInterval      = 100 * time.Millisecond
	maxInterval      = 10 * time.Minute
	standardInterval = 5 * time.Second
	quietInterval    = 2 * time.Second // longer intervals show progress
)

// doctorOptions are the flags of berth doctor.
type doctorOptions struct {
	interval time.Duration
	bundle   string
	force    bool
}

func newDoctorCommand(g *globals) *cobra.Command {
	var o doctorOptions
	var config string
	cmd := &cobra.Command{
		Use:         "doctor",
		Short:       "Say why this host is slow: symptom, evidence, remedy",
		Annotations: promise(),
		Long: `Reads the kernel's counters twice and reports what is wrong with CPUs, memory nodes,
quotas, interrupts and settings of this host. The gravest finding comes first. Each
finding shows its evidence. Checks that were not possible are listed with the reason.

The command writes nothing to the host and needs no root, but root sees more. The exit
code is 0 whatever the findings are. --bundle records both samples in one file, without
command lines, environment or host names; --root reads such a file.`,
		Example: `  berth doctor
  berth doctor --interval 30s -o json
  berth doctor --bundle host.txtar
  berth doctor --root host.txtar`,
		Args: noArgs,
		RunE: formatted(g, func(cmd *cobra.Command, _ []string, format string) error {
			if err := o.check(cmd, g.Root); err != nil {
				return err
			}
			before, now, err := g.samples(cmd, o.interval, config)
			if err != nil {
				return err
			}
			if o.bundle != "" {
				if err := writeNew("--bundle", o.bundle, doctor.Bundle(before, now), o.force); err != nil {
					return err
				}
			}
			report := doctor.Examine(before, now)
			return show(cmd.OutOrStdout(), format, report, func(w io.Writer) error { return printFindings(w, report) })
		}),
	}
	configFlag(cmd, &config)
	cmd.Flags().DurationVar(&o.interval, "interval", standardInterval, "time between the two samples")
	cmd.Flags().StringVar(&o.bundle, "bundle", "", "also record both samples in this new `FILE` (.txtar)")
	cmd.Flags().BoolVar(&o.force, "force", false, "with --bundle: replace an existing file")
	return cmd
}

// check refuses flags that are out of range or conflict.
func (o doctorOptions) check(cmd *cobra.Command, root string) error {
	switch {
	case o.interval < minInterval || o.interval > maxInterval:
		return usageError(fmt.Errorf("--interval %v: allowed: %v to %v", o.interval, minInterval, maxInterval))
	case root != "/" && (cmd.Flags().Changed("interval") || o.bundle != ""):
		return usageError(errors.New("--interval and --bundle: only allowed without --root"))
	case root != "/" && cmd.Flags().Changed("config"):
		return usageError(errors.New("--config: only allowed without --root, which has what was set"))
	case o.force && o.bundle == "":
		return usageError(errors.New("--force: only allowed with --bundle"))
	}
	return nil
}

// samples reads the host twice, or reads both samples from the bundle that --root names.
func (g *globals) samples(cmd *cobra.Command, interval time.Duration, config string) (before, now *doctor.Sample, err error) {
	root, closed, err := g.openReading()
	if err != nil {
		return nil, nil, err
	}
	defer closed()
	if g.Root != "/" {
		before, now, err = doctor.Open(root)
		return before, now, g.sampleError(err)
	}
	cfg, _, unread := findState(cmd, config)
	if unread != nil && cmd.Flags().Changed("config") {
		return nil, nil, unread
	}
	var managed []doctor.Managed
	if unread == nil {
		managed, unread = managedFiles(root, cfg.StateDir)
	}
	if before, err = doctor.Take(root, managed, unread); err != nil {
		return nil, nil, g.sampleError(err)
	}
	if interval > quietInterval {
		progressTo(cmd.ErrOrStderr())(fmt.Sprintf("the second sample follows in %v", interval))
	}
	if err := load.Pause(cmd.Context(), interval); err != nil {
		return nil, nil, err
	}
	now, err = doctor.Take(root, managed, unread)
	return before, now, g.sampleError(err)
}

func (g *globals) sampleError(err error) error {
	if err == nil {
		return nil
	}
	return g.machineError(err)
}

// managedFiles returns the kernel files that a host profile set in this boot, from its journal, with the values that
// the kernel made of them. The error says why the list is empty or not complete; the check reports it.
func managedFiles(root *hostfs.Root, stateDir string) (all []doctor.Managed, err error) {
	snapshot, err := journal.Load(path.Join(stateDir, tuner.Subdir), driver.Values())
	switch {
	case isMissing(err):
		return nil, nil
	case err != nil:
		return nil, err
	}
	boot, err := kernel.BootID(root)
	if err != nil {
		return nil, err
	}
	entries, _ := snapshot.Of(boot)
	for _, e := range entries {
		if file, is := driver.File(root, e.Target); is && e.Intent != "" {
			all = append(all, doctor.Managed{File: file, Desired: string(cmp.Or(e.Made, e.Intent))})
		}
	}
	return all, snapshot.Damage
}

// printFindings prints the findings for people.
func printFindings(w io.Writer, r doctor.Report) error {
	var b table.Page
	b.WriteString(verdictOf(r) + "\n")
	for i, f := range r.Findings {
		b.WriteByte('\n')
		b.Line("%d. %s %s: %s", i+1, f.Severity, f.Code, f.Title)
		for _, part := range findingParts(f) {
			b.WriteString(labelled(part[0], part[1], table.WidthOf(w)))
		}
	}
	if len(r.Skipped) > 0 {
		b.WriteString("\nNot checked:\n" + wrapLines(strings.Join(skippedLines(r.Skipped), "\n"), table.WidthOf(w)))
	}
	return writeText(w, b.String())
}

// labelled formats a text next to its label, in lines that fit the screen.
func labelled(label, text string, width int) string {
	const beside = 11
	var b strings.Builder
	for _, line := range table.Wrap(table.Clean(text), width-beside) {
		fmt.Fprintf(&b, "%-*s%s\n", beside, label, line)
		label = ""
	}
	return b.String()
}

// verdictOf summarizes the severity of the findings.
func verdictOf(r doctor.Report) string {
	counts := map[doctor.Severity]int{}
	for _, f := range r.Findings {
		counts[f.Severity]++
	}
	text := "no fault found"
	if faults := counts[doctor.Critical] + counts[doctor.Warning]; faults > 0 {
		text = fmt.Sprintf("%d critical, %d warning(s)", counts[doctor.Critical], counts[doctor.Warning])
	}
	if r.Load != "" {
		text += "; " + r.Load
	}
	if n := r.Impossible(); n > 0 {
		text += fmt.Sprintf("; %d of %d checks were not possible", n, len(doctor.Checks()))
	}
	return text
}

func findingParts(f doctor.Finding) [][2]string {
	parts := [][2]string{{"Symptom", f.Symptom}}
	for i, e := range f.Evidence {
		name := ""
		if i == 0 {
			name = "Evidence"
		}
		parts = append(parts, [2]string{name, e.File + ": " + e.Value})
	}
	parts = append(parts,
		[2]string{"Rule", f.Formula + "; " + f.Threshold},
		[2]string{"Source", f.Source},
		[2]string{"Remedy", f.Remedy},
		[2]string{"Risk", f.Risk})
	if f.Hides != "" {
		parts = append(parts, [2]string{"Hides", f.Hides})
	}
	return parts
}

// skippedLines returns one line for each reason.
func skippedLines(all []doctor.Skipped) []string {
	var reasons []string
	codes := map[string][]string{}
	for _, s := range all {
		if !slices.Contains(reasons, s.Why) {
			reasons = append(reasons, s.Why)
		}
		codes[s.Why] = append(codes[s.Why], s.Code)
	}
	for i, why := range reasons {
		reasons[i] = strings.Join(codes[why], ", ") + ": " + why
	}
	return reasons
}
