package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-project/berth/internal/bootargs"
	"github.com/berth-project/berth/internal/knob"
	"github.com/berth-project/berth/internal/profile"
	"github.com/berth-project/berth/internal/table"
	"github.com/berth-project/berth/internal/topology"
	"github.com/berth-project/berth/internal/tune"
)

func newTunePlanCommand(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:   "plan PROFILE",
		Short: "Show what a profile would change on this host",
		Long: `Shows for every setting of a profile the value now and then, the file, whether
this kernel has it and it can be set, how exactly it can be undone, and the
risk; and what is doubtful about the profile on this machine. PROFILE is a name
that berth tune list shows, or a path. Nothing is written.

Exit code 0 says that the plan could be made, also where the kernel lacks
settings: SUPPORT says so. 2 is a profile that means nothing on this machine,
such as one with CPUs that it does not have.`,
		Example: `  berth tune plan low-latency
  berth tune plan ./db.yaml -o json
  berth tune plan hpc-sched --root machine.txtar`,
		Args:              oneArg("the name of a profile or a path"),
		ValidArgsFunction: g.completeProfile,
		RunE: func(cmd *cobra.Command, args []string) error {
			format, err := g.format("table", "json", "yaml")
			if err != nil {
				return err
			}
			whole, _, err := g.profiles().open(args[0])
			if err != nil {
				return err
			}
			tree, closeTree, err := g.openMachine()
			if err != nil {
				return err
			}
			defer closeTree()
			plan, err := g.plan(whole, tree)
			if err != nil {
				return err
			}
			return show(cmd.OutOrStdout(), format, plan, func(w io.Writer) error { return printPlan(w, plan) })
		},
	}
}

// oneArg refuses all but one argument.
func oneArg(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 {
			return usageError(fmt.Errorf("%s takes one argument, %s; got %d", cmd.CommandPath(), what, len(args)))
		}
		return nil
	}
}

// plan joins a profile with the host below tree.
func (g *globals) plan(d profile.Document, tree fs.FS) (tune.Plan, error) {
	machine, err := topology.Discover(tree)
	if err != nil {
		return tune.Plan{}, g.machineError(err)
	}
	bound, err := profile.Bind(d, machine)
	if err != nil {
		return tune.Plan{}, err
	}
	host := knob.Open(tree)
	facts := tune.Host{Survey: host.Survey(tune.Knobs(bound)), Facts: host.Facts(), Elsewhere: map[string]knob.Elsewhere{}, Files: map[string]string{}}
	for _, m := range knob.MovedSysctls() {
		if facts.Survey[knob.Prefix+m.Sysctl] != nil {
			facts.Elsewhere[m.Sysctl] = host.Elsewhere(m)
		}
	}
	for _, u := range bound.Units {
		group := facts.Facts.Groups[u.Name]
		for _, file := range []string{"/cpuset.cpus", "/cpuset.mems"} {
			if group != "" {
				facts.Files[group+file] = host.Text(group + file)
			}
		}
	}
	if facts.Boot, err = readBoot(tree, bound.Boot, facts.Facts); err != nil {
		return tune.Plan{}, err
	}
	findings := profile.Lint(bound, machine, facts.Facts, facts.Survey)
	return tune.Make(bound, facts, findings), nil
}

// readBoot reads how the host boots, if a profile has boot arguments.
func readBoot(tree fs.FS, args []string, facts knob.Facts) (tune.Boot, error) {
	b := tune.Boot{Cmdline: facts.Cmdline}
	if _, isRecording := tree.(*topology.Recording); len(args) == 0 || isRecording {
		return b, nil // a recording has no files of a boot loader
	}
	files, err := bootargs.Make(tree, args)
	if errors.Is(err, bootargs.ErrToken) {
		return b, usageError(fmt.Errorf("spec.boot: %w", err))
	}
	b.Files, b.Err = &files, err
	return b, nil
}

// planRow is one line of the table: instances with the same values are one.
type planRow struct {
	tune.Setting
	instances []string
	file      string
}

func printPlan(w io.Writer, plan tune.Plan) error {
	rows := [][]string{{"KNOB", "NOW", "THEN", "SUPPORT", "UNDO", "RISK", "FILE"}}
	for _, r := range grouped(plan.Settings) {
		then := r.Want
		if r.Stands() {
			then = "="
		}
		name := r.Knob
		switch len(r.instances) {
		case 0:
		case 1:
			name += " " + r.instances[0]
		default:
			name += fmt.Sprintf(" %s and %d more", r.instances[0], len(r.instances)-1)
		}
		rows = append(rows, []string{name, textOrDash(r.Now), then, string(r.Support), string(r.Class), string(r.Risk), textOrDash(r.file)})
	}
	if err := table.Write(w, rows); err != nil {
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s\n", planSummary(plan.Settings))
	for _, line := range reasons(plan.Settings) {
		b.WriteString("note: " + line + "\n")
	}
	for _, f := range plan.Findings {
		fmt.Fprintf(&b, "%s: %s: %s\n", f.Severity, f.Code, f.Text)
	}
	_, err := io.WriteString(w, wrapLines(b.String()))
	return err //nolint:wrapcheck // the only thing that was done
}

// wrapLines breaks long lines.
func wrapLines(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		for _, part := range table.Wrap(strings.TrimRight(line, "\n"), table.Width) {
			b.WriteString(part + "\n")
		}
	}
	return b.String()
}

// grouped joins rows that differ in their instance only.
func grouped(settings []tune.Setting) []planRow {
	var rows []planRow
	at := map[tune.Setting]int{}
	for _, s := range settings {
		key := s
		key.Instance, key.File = "", ""
		i, known := at[key]
		if !known || s.Instance == "" {
			i = len(rows)
			at[key] = i
			rows = append(rows, planRow{Setting: s, file: s.File})
		}
		if s.Instance != "" {
			rows[i].instances = append(rows[i].instances, s.Instance)
		}
	}
	return rows
}

// reasons are what is to be said of each knob, once.
func reasons(settings []tune.Setting) []string {
	var lines []string
	for _, s := range settings {
		line := s.Knob + ": " + s.Why
		if s.Knob == "boot" || s.Knob == "cpus.partition" || strings.HasPrefix(s.Knob, "unit.") {
			line = s.Knob + " " + s.Instance + ": " + s.Why
		}
		if s.Why != "" && !s.Stands() && !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	return lines
}

// planSummary counts what an apply would do.
func planSummary(settings []tune.Setting) string {
	write, stand, not := 0, 0, 0
	for _, s := range settings {
		switch {
		case s.Stands():
			stand++
		case s.Support == knob.Settable:
			write++
		default:
			not++
		}
	}
	return fmt.Sprintf("%d to write, %d as desired already, %d that cannot be set or are not known", write, stand, not)
}
