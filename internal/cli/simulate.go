package cli

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-project/berth/internal/cpuset"
	"github.com/berth-project/berth/internal/simulate"
	"github.com/berth-project/berth/internal/table"
)

func newSimulateCommand(g *globals) *cobra.Command {
	var files []string
	cmd := &cobra.Command{
		Use:   "simulate -f FILE...",
		Short: "Schedule a whole cluster on paper",
		Long: `Reads manifests and says where the scheduler would put each pod, which CPUs and
memory nodes each container would get and why, which pods stay pending and what
each node says to them, and how fragmented the nodes are before and after.
Nothing is changed anywhere, and no cluster is asked.

Read are NodeTopology, Node, Pod, Deployment, StatefulSet, Job and lists of them,
as YAML or JSON streams; what berth topology writes (-o json, -o yaml, --capture)
counts as a node named after its file. A directory stands for the .yaml, .yml and .json files in
it. Other kinds are counted and ignored; a bad document is an error. A node needs
a NodeTopology (berth topology -o json will do); its Node adds labels, taints
and what is allocatable.

Pods of a workload are numbered from 0. Pods that have a node and a status hold
what their annotation berth.dev/placement says; all others are placed in the
order of the files, those with a higher spec.priority first. A node must pass
requests, nodeSelector and required node affinity, taints, and the accounting of
pinned CPUs; then the scheduler's own score decides, and among equals the first
name.

Not simulated:
` + gapsText(simulate.Gaps()) + `
Exit code 1 says that a pod stays pending.`,
		Example: `  berth simulate -f nodes.yaml -f go-demo.yaml
  berth topology -o json >node-a.json && berth simulate -f node-a.json -f pods/ -o json
  kubectl get nodes,nodetopologies,pods -A -o json | berth simulate -f - -f new.yaml`,
		RunE: func(cmd *cobra.Command, args []string) error {
			format, err := g.format("table", "json", "yaml")
			if err != nil {
				return err
			}
			names := append(slices.Clone(files), args...)
			if len(names) == 0 {
				return usageError(fmt.Errorf("--filename: missing: allowed: files with manifests, directories, or - for standard input"))
			}
			if cmd.Flags().Changed("root") {
				return usageError(errors.New("--root: allowed: not here: machines are read from manifests"))
			}
			cluster, err := orInterrupted(cmd.Context(), func() (*simulate.Cluster, error) { return readCluster(names, cmd.InOrStdin()) })
			if err != nil {
				return err
			}
			report, err := cluster.Run(cmd.Context())
			if err != nil {
				return fmt.Errorf("simulate: %w", err)
			}
			if err := show(cmd.OutOrStdout(), format, report, func(w io.Writer) error { return printReport(w, report) }); err != nil {
				return err
			}
			if n := len(report.Pending); n > 0 {
				return fmt.Errorf("%s pending", count(n, "pod")+map[bool]string{true: " stays", false: " stay"}[n == 1])
			}
			return nil
		},
	}
	cmd.Flags().StringArrayVarP(&files, "filename", "f", nil, "manifests: a `FILE`, a directory, or - for standard input; may be repeated")
	return cmd
}

// readCluster reads manifests with something to place, and somewhere.
func readCluster(names []string, in io.Reader) (*simulate.Cluster, error) {
	objects, err := simulate.Read(names, in)
	if err != nil {
		return nil, err
	}
	if err := objects.Complete(); err != nil {
		return nil, err
	}
	return simulate.New(objects), nil
}

// gapsText lists what is not simulated, a line each.
func gapsText(gaps []simulate.Gap) string {
	var b strings.Builder
	for _, gap := range gaps {
		fmt.Fprintf(&b, "  - %s: %s", gap.What, gap.Effect)
		if gap.Count > 0 {
			fmt.Fprintf(&b, " (here: %d)", gap.Count)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// printReport prints a report for people.
func printReport(w io.Writer, r simulate.Report) error {
	var b strings.Builder
	paint := paintFor(w)
	section := func(title string) { fmt.Fprintf(&b, "\n%s\n", paint(bold, title)) }

	fmt.Fprintf(&b, "%s placed, %d pending, %s\n", count(len(r.Placements), "pod"), len(r.Pending), count(len(r.Nodes), "node"))
	if len(r.Placements) > 0 {
		section("placed")
		printPlacements(&b, r.Placements)
	}
	if len(r.Pending) > 0 {
		section("pending")
		printPending(&b, r.Pending)
	}
	section("nodes")
	if err := printNodes(&b, r); err != nil {
		return err
	}
	if len(r.NotSimulated) > 0 {
		section("not simulated, but used here")
		b.WriteString(gapsText(r.NotSimulated))
	}
	b.WriteByte('\n')
	for i := range r.Nodes {
		for _, note := range r.Nodes[i].Notes {
			fmt.Fprintf(&b, "note: %s: %s\n", r.Nodes[i].Name, note)
		}
	}
	for _, ignored := range r.Ignored {
		fmt.Fprintf(&b, "ignored: %d x %s\n", ignored.Count, ignored.Kind)
	}
	for _, note := range r.Notes {
		fmt.Fprintf(&b, "note: %s\n", note)
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("write output: %w", err)
	}
	return nil
}

func printPlacements(b *strings.Builder, placements []simulate.Placement) {
	rows := [][]string{{"POD", "NODE", "CONTAINER", "CPUS", "MEMS", "NUMA", "L3", "WHY"}}
	for _, p := range placements {
		name := p.Namespace + "/" + p.Pod
		if len(p.Containers) == 0 {
			rows = append(rows, []string{name, p.Node, "-", "shared", "-", "-", "-", "-"})
		}
		for _, c := range p.Containers {
			rows = append(rows, []string{
				name, p.Node, c.Name, fmt.Sprint(c.CPUs), fmt.Sprint(c.Mems), idsText(c.NUMANodes), idsText(c.L3), whyText(p.Why),
			})
		}
	}
	_ = table.Write(b, rows) // a strings.Builder takes everything
	for _, p := range placements {
		for _, warning := range p.Warnings {
			fmt.Fprintf(b, "warning: %s/%s: %s\n", p.Namespace, p.Pod, warning)
		}
	}
}

// whyText is what matters most of the reasons for a pod's CPUs: how many
// domains they lie in, and how they lie on cores.
func whyText(why []simulate.Reason) string {
	var parts []string
	for _, reason := range why {
		if slices.Contains([]string{"numaNodes", "l3s", "split", "cores", "exclusive", "numaExclusive", "remote", "mems"}, reason.Term) {
			parts = append(parts, reason.Text)
		}
	}
	return strings.Join(parts, ", ")
}

func idsText(ids []int) string {
	if len(ids) == 0 {
		return "-"
	}
	set, _ := cpuset.Of(ids...) // beyond what a set holds there is nothing to show
	return set.String()
}

func printPending(b *strings.Builder, pending []simulate.Pending) {
	for _, p := range pending {
		if p.SameAs != "" {
			fmt.Fprintf(b, "%s/%s: as %s\n", p.Namespace, p.Pod, p.SameAs)
			continue
		}
		fmt.Fprintf(b, "%s/%s: %s\n", p.Namespace, p.Pod, p.Reason)
		printNodeReasons(b, p.Nodes)
		for _, warning := range p.Warnings {
			fmt.Fprintf(b, "  warning: %s\n", warning)
		}
	}
}

// detailsShown bounds the lines per pending pod; the other formats have all.
const detailsShown = 8

func printNodeReasons(b *strings.Builder, nodes []simulate.NodeReason) {
	for i, n := range nodes {
		if i == detailsShown {
			fmt.Fprintf(b, "  … and %s more (-o json has all)\n", count(len(nodes)-i, "node"))
			return
		}
		fmt.Fprintf(b, "  %s: %s\n", n.Node, n.Detail)
	}
}

func printNodes(b *strings.Builder, r simulate.Report) error {
	rows := [][]string{{"NODE", "PODS", "FREE CPUS", "MOST IN A NUMA NODE", "MOST IN AN L3", "FREE L3", "BROKEN CORES", "FRAGMENTATION"}}
	row := func(name, pods string, c simulate.Change) {
		rows = append(rows, []string{
			name, pods,
			change(c.Before.FreeCPUs, c.After.FreeCPUs), change(c.Before.LargestInNUMANode, c.After.LargestInNUMANode),
			change(c.Before.LargestInL3, c.After.LargestInL3), change(c.Before.FreeL3, c.After.FreeL3),
			change(c.Before.BrokenCores, c.After.BrokenCores), change(c.Before.Percent, c.After.Percent) + " %",
		})
	}
	for i := range r.Nodes {
		row(r.Nodes[i].Name, strconv.Itoa(r.Nodes[i].Pods), r.Nodes[i].Fragmentation)
	}
	if len(r.Nodes) > 1 {
		row("all", "", r.Fragmentation)
	}
	_ = table.Write(b, rows) // a strings.Builder takes everything
	return printPictures(b, r.Nodes)
}

func change(before, after int) string {
	if before == after {
		return strconv.Itoa(after)
	}
	return fmt.Sprintf("%d -> %d", before, after)
}

// picturesShown bounds how many nodes are drawn.
const picturesShown = 6

// printPictures draws the nodes on which pods have exclusive CPUs, each pod
// with a letter.
func printPictures(b *strings.Builder, nodes []simulate.Node) error {
	drawn := 0
	for i := range nodes {
		n := &nodes[i]
		if n.Machine() == nil || len(n.Held) == 0 {
			continue
		}
		if drawn++; drawn > picturesShown {
			continue
		}
		if err := drawNode(b, n); err != nil {
			return err
		}
	}
	if drawn > picturesShown {
		fmt.Fprintf(b, "\n… and %s more with pinned pods\n", count(drawn-picturesShown, "node"))
	}
	return nil
}

func drawNode(b *strings.Builder, n *simulate.Node) error {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	pinnable, err := cpuset.Parse(n.Pinnable)
	if err != nil {
		return err
	}
	pinnable = pinnable.Difference(efficiencyCPUs(n.Machine()))
	letter := func(i int) rune {
		if i < len(letters) {
			return rune(letters[i])
		}
		return signTaken
	}
	var empty cpuset.Set
	for _, held := range n.Held {
		empty = empty.Union(held.LeftEmpty)
	}
	fmt.Fprintf(b, "\n%s\n", n.Name)
	err = drawCores(b, n.Machine(), "  ", func(cpu int) rune {
		i := slices.IndexFunc(n.Held, func(held simulate.Held) bool { return held.CPUs.Contains(cpu) })
		switch {
		case i >= 0:
			return letter(i)
		case empty.Contains(cpu):
			return signEmpty
		case !pinnable.Contains(cpu):
			return signOff
		default:
			return signFree
		}
	})
	for i, held := range n.Held {
		fmt.Fprintf(b, "  %c  %s\n", letter(i), held.Pod)
	}
	if !empty.IsEmpty() {
		fmt.Fprintf(b, "  %c  sibling left empty\n", signEmpty)
	}
	return err
}
