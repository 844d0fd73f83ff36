package cli

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-project/berth/internal/scheduler/relocation"
	"github.com/berth-project/berth/internal/scheduler/simulate"
	"github.com/berth-project/berth/internal/value/table"
	"github.com/berth-project/berth/internal/value/unit"
)

var errManifestsOnly = errors.New("--filename: only allowed with --dry-run: what manifests describe is on paper")

// repackOptions are the flags of berth repack.
type repackOptions struct {
	kubeFlags
	files   []string
	dry     bool
	moves   int
	timeout time.Duration
}

func newRepackCommand(g *globals) *cobra.Command {
	var o repackOptions
	cmd := &cobra.Command{
		Use:   "repack NODE",
		Short: "Make room on a node with the fewest moves of running pods",
		Long: `Gives running pods other CPUs of their node, so that a pod which is pending because of
fragmentation finds room there. If no plan helps such a pod, it frees more whole L3
domains instead. No container restarts. With --dry-run the command shows these plans, for
each such pod and for L3 domains, and changes nothing. Without it the command carries out
the first plan. Run it again for the next plan.

A plan moves only pods with the annotation berth.dev/movable: "true", and has the fewest
moves possible. Moves come one after the other: the CPUs of a move are free when it
begins. No pod is worse off than at first: it spans no more NUMA nodes, sockets or L3
domains, holds no more cores in part, and is no farther from its memory or devices. On a
large node the search may end early; the output says so.

The agent of the node moves the pods. It refuses a move that is no longer possible. The
command ends at the first move that fails, and reports the progress of each move. Exit
code 1: the move was refused, by the agent or because the pod has changed. Exit code 4:
the agent is away or did not answer in time, or the API server's answer was lost. After a
lost answer the move may have been requested: the command withdraws it, as it withdraws a
move that takes too long. Ctrl-C withdraws the current move, which completes if it has
begun. Completed moves stay.

The command queries the cluster as berth explain pod/NAME does, and writes the moves
into the status of the pods. With -f it reads manifests instead, as berth simulate does,
and first places the pods that wait, as far as there is room.`,
		Example: `  kubectl berth repack node-a --dry-run
  kubectl berth repack node-a --max-moves 1
  berth repack node-a --dry-run -f nodes.yaml -f pods.yaml -o json`,
		Args:              oneArg("the name of a node"),
		ValidArgsFunction: o.completeNode,
		RunE:              func(cmd *cobra.Command, args []string) error { return o.run(cmd, g, args[0]) },
	}
	o.registerCluster(cmd)
	cmd.Flags().StringArrayVarP(&o.files, "filename", "f", nil, "with --dry-run, manifests instead of a cluster: a `FILE`, a directory, or - for standard input; may be repeated")
	cmd.Flags().BoolVar(&o.dry, "dry-run", false, "show the moves, and change nothing")
	cmd.Flags().IntVar(&o.moves, "max-moves", simulate.MostMoves, "the most moves of a plan, 1 to 8")
	cmd.Flags().DurationVar(&o.timeout, "timeout", time.Minute, "how long one move may take, at most 1h")
	return cmd
}

func (o *repackOptions) run(cmd *cobra.Command, g *globals, node string) error {
	format, err := g.format("table", "json", "yaml")
	if err != nil {
		return err
	}
	if err := o.check(); err != nil {
		return err
	}
	plans, err := o.plan(cmd, node)
	if err != nil {
		return err
	}
	if o.dry || len(plans.Plans) == 0 {
		return show(cmd.OutOrStdout(), format, plans, func(w io.Writer) error { return writeText(w, repacksText(plans)) })
	}
	carried, failed := o.carryOut(cmd, node, &plans.Plans[0])
	return errors.Join(show(cmd.OutOrStdout(), format, carried, func(w io.Writer) error { return writeText(w, carried.text()) }), failed)
}

func (o *repackOptions) check() error {
	const most = 8
	switch {
	case len(o.files) > 0 && !o.dry:
		return usageError(errManifestsOnly)
	case o.moves < 1 || o.moves > most:
		return usageError(fmt.Errorf("--max-moves: value %d: allowed: 1 to %d", o.moves, most))
	case o.timeout <= 0 || o.timeout > mostWait:
		return usageError(fmt.Errorf("--timeout %v: allowed: more than 0, at most %v", o.timeout, mostWait))
	}
	return nil
}

// plan returns the plans for a node.
func (o *repackOptions) plan(cmd *cobra.Command, node string) (simulate.Repacks, error) {
	objects, err := o.objects(cmd)
	if err != nil {
		return simulate.Repacks{}, err
	}
	cluster := simulate.New(objects)
	if _, err := cluster.Run(cmd.Context()); err != nil {
		return simulate.Repacks{}, fmt.Errorf("repack: %w", err)
	}
	r, known := cluster.Repacks(node, o.moves)
	if !known {
		return r, usageError(fmt.Errorf("node %q: allowed: a node with a NodeTopology", node))
	}
	return r, nil
}

// repacked is the result of executing a plan; its JSON is a stable contract.
type repacked struct {
	Node string `json:"node"`
	// Pod and L3s are what the plan makes room for.
	Pod   string            `json:"pod,omitempty"`
	L3s   int               `json:"l3s,omitempty"`
	Steps []relocation.Step `json:"steps"`
	plan  *simulate.Repack
}

// carryOut makes the agent of the node execute a plan.
func (o *repackOptions) carryOut(cmd *cobra.Command, node string, plan *simulate.Repack) (repacked, error) {
	cfg, _, err := o.config()
	if err != nil {
		return repacked{}, err
	}
	steps, err := relocation.Run(cmd.Context(), relocation.Options{
		Config: cfg, Node: node, Timeout: o.timeout, Now: time.Now, Progress: progressTo(cmd.ErrOrStderr()),
	}, plan.Moves)
	return repacked{Node: node, Pod: plan.Pod, L3s: plan.L3s, Steps: steps, plan: plan}, err
}

// text describes the progress of each move.
func (r repacked) text() string {
	var b table.Page
	b.Line("plan: %s", r.plan.Text())
	for i, s := range r.Steps {
		how := map[relocation.State]string{
			relocation.Moved: "moved", relocation.Refused: "refused", relocation.Withdrawn: "not moved",
			relocation.Asked: "asked for", relocation.NotAsked: "not asked for",
		}[s.State]
		if s.Text != "" {
			how += ": " + s.Text
		}
		b.Line("  %d. %s: CPUs %s -> %s: %s", i+1, s.Pod, s.From, s.To, how)
	}
	return b.String()
}

// objects reads the manifests, or else the cluster.
func (o *repackOptions) objects(cmd *cobra.Command) (simulate.Objects, error) {
	if len(o.files) == 0 {
		objects, _, err := o.observe(cmd.Context())
		return objects, err
	}
	return orInterrupted(cmd.Context(), func() (simulate.Objects, error) {
		return simulate.Read(o.files, cmd.InOrStdin())
	})
}

// repacksText formats plans for people.
func repacksText(r simulate.Repacks) string {
	var b table.Page
	b.Line("%s: %d free CPUs, %s free as a whole, %s may be moved",
		r.Node, r.Fragmentation.FreeCPUs, unit.Count(r.Fragmentation.FreeL3, "L3 domain"), unit.Count(len(r.Movable), "pod"))
	for i := range r.Plans {
		printRepack(&b, "", &r.Plans[i])
	}
	if len(r.Plans) == 0 {
		b.WriteString("no plan: nothing to make room for, or no moves that would\n")
	}
	for _, note := range r.Notes {
		b.Line("note: %s", note)
	}
	return b.String()
}

// printRepack prints a plan, one line per move.
func printRepack(b *table.Page, indent string, r *simulate.Repack) {
	b.Line("%splan: %s", indent, r.Text())
	for i, move := range r.Moves {
		b.Line("%s  %d. %s: CPUs %s -> %s", indent, i+1, move.Pod, move.From, move.To)
	}
}
