package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-project/berth/internal/capability/localize/locality"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/value/table"
)

// watchEvery is the interval of berth memory show --watch.
const watchEvery = time.Second

// memoryReport is the output of berth memory; its JSON is a stable contract.
type memoryReport struct {
	Nodes     []memoryNode     `json:"nodes"`
	Workloads []memoryWorkload `json:"workloads"`
}

// memoryNode is a NUMA node with memory.
type memoryNode struct {
	ID        int   `json:"id"`
	FreeBytes int64 `json:"freeBytes"`
	// RoomBytes is how much may move to the node, negative if it has too little already.
	RoomBytes int64 `json:"roomBytes"`
}

// memoryWorkload says where the pages of a group are.
type memoryWorkload struct {
	Name  string `json:"name"`
	Group string `json:"group"`
	// LocalNodes are the memory nodes of its CPUs, in the kernel's list format.
	LocalNodes  string           `json:"localNodes"`
	Ratio       int              `json:"ratio"`
	RemotePages int64            `json:"remotePages"`
	BytesByNode map[string]int64 `json:"bytesByNode"`
	// Phase is the phase of the workload's policy, empty if no agent reports one.
	Phase string `json:"phase"`
	// Left counts the pages that the last pass left, by reason.
	Left map[string]int64 `json:"left"`
	// Pass is set by berth memory migrate.
	Pass *memoryPass `json:"pass,omitempty"`
}

func newMemoryCommand(g *globals) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "memory",
		Short: "Show where the pages of workloads are, and move them to their CPUs",
	}
	cmd.AddCommand(newMemoryShowCommand(g), newMemoryMigrateCommand(g))
	return parent(cmd)
}

// memoryFlags select the workload.
type memoryFlags struct {
	config string
	pid    int
}

func (f *memoryFlags) register(cmd *cobra.Command) {
	configFlag(cmd, &f.config)
	cmd.Flags().IntVar(&f.pid, "pid", 0, "the group of this `PROCESS` instead of a workload")
}

// args accepts at most one name, and none with --pid.
func (f *memoryFlags) args(cmd *cobra.Command, args []string) error {
	switch pid := cmd.Flags().Changed("pid"); {
	case len(args) > 1:
		return usageError(fmt.Errorf("%s takes one workload name or --pid, got %d arguments", cmd.CommandPath(), len(args)))
	case pid && len(args) == 1:
		return usageError(fmt.Errorf("--pid %d: not allowed with the workload %q", f.pid, args[0]))
	case pid && f.pid < 1:
		return usageError(fmt.Errorf("--pid %d: allowed: 1 or more", f.pid))
	}
	return nil
}

// complete completes the names of workloads.
func (f *memoryFlags) complete(g *globals) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		const quiet = cobra.ShellCompDirectiveNoFileComp
		if len(args) > 0 {
			return nil, quiet
		}
		o, err := f.open(cmd, g)
		if err != nil {
			return nil, quiet
		}
		defer o.close()
		var names []string
		for _, t := range o.targets {
			names = append(names, t.name)
		}
		return names, quiet
	}
}

func newMemoryShowCommand(g *globals) *cobra.Command {
	var f memoryFlags
	var watch bool
	cmd := &cobra.Command{
		Use:   "show [WORKLOAD | --pid PROCESS]",
		Short: "Show on which NUMA nodes the pages of workloads are",
		Long: `Shows the memory of each workload: bytes on each NUMA node, the share on the nodes of
its CPUs (the ratio, in per cent, rounded down), and the pages that the last pass left
elsewhere, with the reason. It asks the agent; without an agent it reads workloadDir.
The figures include anonymous, shared and huge pages. They exclude page cache, which
Berth never moves. A first table has the free memory of each node, and how much of it
moved pages may fill (room). The command only reads.`,
		Example: `  berth memory show
  berth memory show redis -o json
  berth memory show --pid 4711
  berth memory show redis --watch`,
		Args:              f.args,
		ValidArgsFunction: f.complete(g),
		RunE: formatted(g, func(cmd *cobra.Command, args []string, format string) error {
			look := func() error { return f.show(cmd, g, args, format) }
			if !watch {
				return look()
			}
			notes := &freshNotes{to: cmd.ErrOrStderr()}
			cmd.SetErr(notes)
			return watched(cmd.Context(), cmd.OutOrStdout(), format, func() error { notes.next(); return look() })
		}),
	}
	f.register(cmd)
	cmd.Flags().BoolVar(&watch, "watch", false, "show it again every second, until Ctrl-C")
	return cmd
}

// watched calls look every second until ctx ends. It separates tables by an empty line and YAML documents by their
// separator; JSON needs none.
func watched(ctx context.Context, w io.Writer, format string, look func() error) error {
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	between := map[string]string{"table": "\n", "yaml": "---\n"}[format]
	for {
		if err := look(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		if err := writeOutput(w, between); err != nil {
			return err
		}
	}
}

func (f *memoryFlags) show(cmd *cobra.Command, g *globals, args []string, format string) error {
	o, err := f.open(cmd, g)
	if err != nil {
		return err
	}
	defer o.close()
	targets, err := o.chosen(args, f.pid)
	if err != nil {
		return err
	}
	r, err := o.report()
	if err != nil {
		return g.hostError(err)
	}
	all := len(args) == 0 && f.pid == 0
	var failed error
	for _, t := range targets {
		w, err := o.measure(t)
		switch {
		case err == nil:
			r.Workloads = append(r.Workloads, w)
		case all: // among all workloads, some may wait for their groups
			printNote(cmd, "%s: %v", t.name, err)
		default:
			return g.hostError(fmt.Errorf("%s: %w", t.name, err))
		}
		if err != nil && t.waits == nil && !errors.Is(err, cgroup.ErrNoGroup) {
			failed = errors.Join(failed, fmt.Errorf("%s: %w", t.name, err))
		}
	}
	if err := show(cmd.OutOrStdout(), format, r, r.print); err != nil {
		return err
	}
	if len(r.Workloads) > 0 {
		return nil
	}
	return g.hostError(failed)
}

// print writes the nodes, then the workloads.
func (r memoryReport) print(w io.Writer) error {
	b := table.PageFor(w)
	rows := [][]string{{"NODE", "FREE", "ROOM"}}
	for _, n := range r.Nodes {
		rows = append(rows, []string{fmt.Sprint(n.ID), sizeText(n.FreeBytes), sizeText(n.RoomBytes)})
	}
	_ = table.Write(b, rows) // a page accepts everything
	rows = [][]string{{"WORKLOAD", "LOCAL NODES", "RATIO", "REMOTE PAGES", "BY NODE", "PHASE", "LEFT"}}
	for _, one := range r.Workloads {
		rows = append(rows, []string{
			one.Name, textOrDash(one.LocalNodes), fmt.Sprintf("%d %%", one.Ratio), fmt.Sprint(one.RemotePages),
			one.byNode(), textOrDash(one.Phase), textOrDash(one.left()),
		})
	}
	printRows(b, rows)
	for _, one := range r.Workloads {
		one.Pass.write(b)
	}
	return writeOutput(w, b.String())
}

func (w memoryWorkload) byNode() string {
	var parts []string
	for _, id := range slices.SortedFunc(maps.Keys(w.BytesByNode), byNumber) {
		parts = append(parts, id+": "+sizeText(w.BytesByNode[id]))
	}
	return strings.Join(parts, ", ")
}

// byNumber orders numbers written in decimal.
func byNumber(a, b string) int {
	if len(a) != len(b) {
		return len(a) - len(b)
	}
	return strings.Compare(a, b)
}

// left names the reasons in the order in which passes report them.
func (w memoryWorkload) left() string {
	var parts []string
	for _, why := range locality.Lefts() {
		if n := w.Left[string(why)]; n > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", why, n))
		}
	}
	return strings.Join(parts, ", ")
}

// sizeText formats a number of bytes.
func sizeText(n int64) string {
	const step = 1024
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	value, i := float64(n), 0
	for max(value, -value) >= step && i < len(units)-1 {
		value, i = value/step, i+1
	}
	if i == 0 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", value, units[i])
}

// pageSize is the size of the pages that JSON and events count.
func pageSize() int64 { return int64(os.Getpagesize()) }
