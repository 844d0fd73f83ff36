package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-project/berth/internal/capability/localize/locality"
	"github.com/berth-project/berth/internal/capability/localize/mover"
	"github.com/berth-project/berth/internal/capability/tune"
	"github.com/berth-project/berth/internal/capability/tune/profile"
	"github.com/berth-project/berth/internal/capability/tune/tuner"
	"github.com/berth-project/berth/internal/linux/bootargs"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/linux/kernel"
	"github.com/berth-project/berth/internal/linux/knob"
	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/value/table"
)

func newTunePlanCommand(g *globals) *cobra.Command {
	var config string
	cmd := &cobra.Command{
		Use:         "plan PROFILE",
		Short:       "Show what a profile would change on this host",
		Annotations: promise(),
		Long: `Shows every setting of a profile: the value now and then, the file, whether this kernel
has it and it can be set, how exactly it can be undone, and the risk. It also says what is
doubtful about the profile on this machine. PROFILE is a name that berth tune list shows,
or a path. The command writes nothing.

Exit code 0 says that the plan could be made, even if the kernel lacks settings or the
agent holds some. SUPPORT shows that, and a line names the settings for which berth tune
apply would refuse the profile. Exit code 2 says that the profile has no meaning on this
machine, for example because it names CPUs that the machine does not have.`,
		Example: `  berth tune plan low-latency
  berth tune plan ./db.yaml -o json
  berth tune plan hpc-sched --root machine.txtar`,
		Args:              oneArg("the name of a profile or a path"),
		ValidArgsFunction: g.completeProfile,
		RunE: formatted(g, func(cmd *cobra.Command, args []string, format string) error {
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
			if plan, err = g.begins(plan); err != nil {
				printNote(cmd, "it is not known whether each unit could start with its lists: %v", err)
			}
			if plan, err = g.held(cmd, config, plan); err != nil {
				printNote(cmd, "it is not known whether the agent holds a setting: %v", err)
			}
			return show(cmd.OutOrStdout(), format, plan, func(w io.Writer) error { return printPlan(w, plan) })
		}),
	}
	configFlag(cmd, &config)
	return cmd
}

// held marks settings that the host's agent holds. With an error the plan is unchanged. A recording has no state.
func (g *globals) held(cmd *cobra.Command, config string, plan tune.Plan) (tune.Plan, error) {
	if recording, err := g.recording(); recording != nil || err != nil {
		return plan, err
	}
	stateDir, err := g.tuneState(cmd, config)
	if err != nil {
		return plan, err
	}
	if nothing, err := isNothing(stateDir); nothing || err != nil {
		return plan, err
	}
	host, closeHost, err := g.tuneHost(stateDir)
	defer closeHost()
	if err != nil {
		return plan, err
	}
	return host.Held(plan)
}

// begins marks the lists with which units could not start. Below another root systemd knows other units.
func (g *globals) begins(plan tune.Plan) (tune.Plan, error) {
	if g.Root != "/" {
		return plan, nil
	}
	host, closeHost, err := g.tuneHost("")
	defer closeHost()
	if err != nil {
		return plan, err
	}
	return host.Begins(plan)
}

// oneArg accepts exactly one argument.
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
	if g.Root == "/" {
		host.Scheduled = kernel.ThreadScheduled
	}
	facts := tune.Host{Survey: host.Survey(tune.Knobs(bound)), Facts: host.Facts(), Elsewhere: map[string]knob.Elsewhere{}, Room: map[int]int64{}}
	for _, m := range knob.MovedSysctls() {
		if facts.Survey[knob.Prefix+m.Sysctl] != nil {
			facts.Elsewhere[m.Sysctl] = host.Elsewhere(m)
		}
	}
	readRoom(tree, machine, facts.Room)
	if err := g.readUnits(bound, host, &facts); err != nil {
		return tune.Plan{}, err
	}
	if facts.Boot, err = readBoot(tree, bound.Boot, facts.Facts); err != nil {
		return tune.Plan{}, err
	}
	findings := append(tuner.Overruled(host, bound.Units), profile.Lint(bound, machine, facts.Facts, facts.Survey)...)
	return tune.Make(bound, facts, findings), nil
}

// readUnits reads the values of running units, and whether this kernel has slices of single threads.
func (g *globals) readUnits(b profile.Bound, host *knob.Host, into *tune.Host) error {
	into.Files, into.Threads, into.Memory = map[string]string{}, map[string]knob.Threads{}, map[string]map[int]int64{}
	for _, file := range tune.SliceFiles(b, into.Facts) {
		into.Files[file] = host.Text(file)
	}
	for _, u := range b.Units {
		group := into.Facts.Scheduled(u.Name)
		if group == "" {
			continue
		}
		if memory, ok := cgroup.ParseMemoryByNode([]byte(host.Text(group + "/memory.numa_stat"))); ok {
			into.Memory[group] = maps.Collect(slices.All(memory.Movable))
		}
		for _, file := range tune.Files(u.Name, into.Facts) {
			maps.Copy(into.Files, host.Texts(file))
		}
		threads := into.Threads[group]
		if u.Policy != "" {
			threads.Policies = host.Policies(group)
		}
		if u.Slice != "" {
			threads.Slices = host.Slices(group)
		}
		into.Threads[group] = threads
	}
	if g.Root != "/" || len(b.Units) == 0 {
		return nil
	}
	base, err := kernel.DefaultThreadSlice()
	if into.Slices = knob.Settable; base == 0 {
		into.Slices = knob.Absent
	}
	return err
}

// readRoom reads how many bytes may move to each NUMA node, by the rules of memory locality. The room of all nodes is
// unknown if the kernel or a recording lacks the data of a node.
func readRoom(tree fs.FS, machine *topology.Topology, into map[int]int64) {
	var nodes locality.Nodes
	for _, n := range machine.Nodes {
		nodes = append(nodes, locality.Node{ID: int(n.ID), Bytes: n.MemoryBytes})
	}
	memory, err := mover.Memory(treeFiles{tree}, nodes)
	if err != nil {
		return
	}
	for node, now := range memory {
		into[node] = now.Room(0)
	}
}

// treeFiles reads the files of a host or of a recorded machine.
type treeFiles struct{ fs.FS }

// ReadFile reads a kernel file of the tree.
func (t treeFiles) ReadFile(name string) ([]byte, error) { return fs.ReadFile(t.FS, name) } //nolint:wrapcheck // no room is known then

// readBoot reads how the host boots, if the profile has boot arguments.
func readBoot(tree fs.FS, args []string, facts knob.Facts) (tune.Boot, error) {
	b := tune.Boot{Want: args, Cmdline: facts.Cmdline, Made: map[string]string{}}
	for _, arg := range args {
		if made, booted := bootargs.InForce(tree, arg); booted && made != arg {
			b.Made[arg] = made
		}
	}
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

// planRow is one line of the table; it joins instances with the same values.
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
	const undo = 4 // a narrow screen shows these columns in a second table
	if table.WidthOf(w) >= wholePlan {
		if err := table.Write(w, rows); err != nil {
			return err
		}
	} else if err := writeHalves(w, rows, undo); err != nil {
		return err
	}
	var b table.Page
	b.WriteByte('\n')
	b.Line("%s", planSummary(plan.Settings))
	if len(plan.Refuses) > 0 {
		b.WriteString("apply would refuse (exit 3): " + strings.Join(plan.Refuses, ", ") + "\n")
	}
	for _, line := range reasons(plan.Settings) {
		b.Line("note: %s", line)
	}
	for _, f := range plan.Findings {
		b.Line("%s: %s: %s", f.Severity, f.Code, f.Text)
	}
	return writeText(w, wrapLines(b.String(), table.WidthOf(w)))
}

// wholePlan is the least width at which a plan is one table.
const wholePlan = 110

// writeHalves writes a table as two tables with the same first column.
func writeHalves(w io.Writer, rows [][]string, at int) error {
	var left, right [][]string
	for _, row := range rows {
		left, right = append(left, row[:at]), append(right, append([]string{row[0]}, row[at:]...))
	}
	if err := table.Write(w, left); err != nil {
		return err
	}
	if _, err := io.WriteString(w, "\n"); err != nil {
		return err //nolint:wrapcheck // the only thing that was done
	}
	return table.Write(w, right)
}

// wrapLines breaks lines that exceed the width.
func wrapLines(text string, width int) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		for _, part := range table.Wrap(strings.TrimRight(line, "\n"), width) {
			b.WriteString(part + "\n")
		}
	}
	return b.String()
}

// grouped joins rows that differ only in their instance, except rows of units, which people name.
func grouped(settings []tune.Setting) []planRow {
	var rows []planRow
	at := map[tune.Setting]int{}
	for _, s := range settings {
		key := s
		key.Instance, key.File = "", ""
		i, known := at[key]
		if !known || s.Instance == "" || s.OfGroup() {
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

// reasons returns the remarks about each knob, once each.
func reasons(settings []tune.Setting) []string {
	var lines []string
	for _, s := range settings {
		line := s.Knob + ": " + s.Why
		if s.Knob == "boot" || s.Knob == tune.Partition || strings.HasPrefix(s.Knob, "unit.") {
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
