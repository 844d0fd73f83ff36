package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-project/berth/internal/cli/picture"
	"github.com/berth-project/berth/internal/scheduler/simulate"
	"github.com/berth-project/berth/internal/value/cpuset"
	"github.com/berth-project/berth/internal/value/table"
	"github.com/berth-project/berth/internal/value/unit"
)

func newSimulateCommand(g *globals) *cobra.Command {
	var files []string
	var strict, plans bool
	cmd := &cobra.Command{
		Use:         "simulate -f FILE...",
		Short:       "Schedule a whole cluster on paper",
		Annotations: promise(),
		Long: `Reads manifests and shows where the scheduler would put each pod, which CPUs and memory
nodes each container would get and why, which pods stay pending and why each node refuses
them, and how fragmented the nodes are before and after. The command changes nothing and
asks no cluster.

It reads NodeTopology, Node, Pod, Deployment, StatefulSet, Job and lists of these, as YAML
or JSON streams. Output of berth topology (-o json, -o yaml, --capture) is a node named
after its file. For a directory the command reads its .yaml, .yml and .json files. It
counts and ignores other kinds; a bad document is an error. A node needs a NodeTopology
(berth topology -o json will do); its Node adds labels, taints and what is allocatable.

Pods of a workload are numbered from 0. Pods with a node and a status hold the CPUs of
their annotation berth.dev/placement. The command places all other pods in the order of
the files, those with a higher spec.priority first. A node must pass requests,
nodeSelector and required node affinity, taints, and the accounting of pinned CPUs. Then
the scheduler's own score decides, and among equal nodes the first name.

With --repack the output names, for a pod that stays pending because of fragmentation, the
running pods that would need other CPUs of their node: at most 3 (see berth repack).

Not simulated:
` + gapsText(simulate.Gaps()) + `
Exit code 1 says that a pod stays pending; with --strict also that a pod has a
warning: a key that is mistyped, or whose value or field does not count.`,
		Example: `  berth simulate -f nodes.yaml -f go-demo.yaml
  berth simulate -f nodes.yaml -f go-demo.yaml --strict -o svg >cluster.svg
  berth simulate -f nodes.yaml -f go-demo.yaml --repack
  berth topology -o json >node-a.json && berth simulate -f node-a.json -f pods/ -o json
  kubectl get nodes,nodetopologies,pods -A -o json | berth simulate -f - -f new.yaml`,
		RunE: formatted(g, func(cmd *cobra.Command, args []string, format string) error {
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
			cluster.Progress(progressTo(cmd.ErrOrStderr()))
			if plans {
				cluster.PlanRepacks()
			}
			report, err := cluster.Run(cmd.Context())
			if err != nil {
				return fmt.Errorf("simulate: %w", err)
			}
			if err := showReport(cmd, format, report); err != nil {
				return err
			}
			return unwelcome(report, strict)
		}, formatSVG),
	}
	cmd.Flags().StringArrayVarP(&files, "filename", "f", nil, "manifests: a `FILE`, a directory, or - for standard input; may be repeated")
	cmd.Flags().BoolVar(&plans, "repack", false, "plan the fewest moves that make room for a pod which stays pending because of fragmentation")
	cmd.Flags().BoolVar(&strict, "strict", false, "exit code 1 on warnings too")
	return cmd
}

// showReport prints a report, or draws it.
func showReport(cmd *cobra.Command, format string, r simulate.Report) error {
	if format == formatSVG {
		for _, warning := range warningsOf(r) { // a picture has no room for warnings
			_, _ = fmt.Fprintln(cmd.ErrOrStderr(), table.Clean("warning: "+warning))
		}
		return drawReport(cmd.OutOrStdout(), r)
	}
	return show(cmd.OutOrStdout(), format, r, func(w io.Writer) error { return printReport(w, r) })
}

// unwelcome returns an error if pods stay pending or, with strict, if there are warnings.
func unwelcome(r simulate.Report, strict bool) error {
	var errs []error
	if n := len(r.Pending); n > 0 {
		errs = append(errs, fmt.Errorf("%s pending", unit.Count(n, "pod")+map[bool]string{true: " stays", false: " stay"}[n == 1]))
	}
	if warnings := warningsOf(r); strict && len(warnings) > 0 {
		errs = append(errs, fmt.Errorf("%s (--strict)", unit.Count(len(warnings), "warning")))
	}
	return errors.Join(errs...)
}

// warningsOf returns the warnings of a report, each with its pod.
func warningsOf(r simulate.Report) []string {
	var all []string
	add := func(namespace, pod string, warnings []string) {
		for _, warning := range warnings {
			all = append(all, namespace+"/"+pod+": "+warning)
		}
	}
	for _, p := range r.Placements {
		add(p.Namespace, p.Pod, p.Warnings)
	}
	for _, p := range r.Pending {
		add(p.Namespace, p.Pod, p.Warnings)
	}
	return all
}

// readCluster reads manifests, which must have pods and nodes.
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

// gapsText lists what is not simulated, one line each.
func gapsText(gaps []simulate.Gap) string {
	var b table.Page
	for _, gap := range gaps {
		here := ""
		if gap.Count > 0 {
			here = fmt.Sprintf(" (here: %d)", gap.Count)
		}
		b.Line("  - %s: %s%s", gap.What, gap.Effect, here)
	}
	return b.String()
}

// reportTitle summarizes a report in one line.
func reportTitle(r simulate.Report) string {
	return fmt.Sprintf("%s placed, %d pending, %s", unit.Count(len(r.Placements), "pod"), len(r.Pending), unit.Count(len(r.Nodes), "node"))
}

// printReport formats a report for people.
func printReport(w io.Writer, r simulate.Report) error {
	b := table.PageFor(w)
	paint := paintFor(w)
	section := func(title string) { fmt.Fprintf(b, "\n%s\n", paint(bold, title)) }

	b.WriteString(reportTitle(r) + "\n")
	if len(r.Placements) > 0 {
		section("placed")
		printPlacements(b, r.Placements)
	}
	if len(r.Pending) > 0 {
		section("pending")
		printPending(b, r.Pending)
	}
	section("nodes")
	if err := printNodes(b, r); err != nil {
		return err
	}
	if len(r.NotSimulated) > 0 {
		section("not simulated, but used here")
		b.WriteString(gapsText(r.NotSimulated))
	}
	b.WriteByte('\n')
	for i := range r.Nodes {
		for _, note := range r.Nodes[i].Notes {
			b.Line("note: %s: %s", r.Nodes[i].Name, note)
		}
	}
	for _, ignored := range r.Ignored {
		b.Line("ignored: %d x %s", ignored.Count, ignored.Kind)
	}
	for _, note := range r.Notes {
		b.Line("note: %s", note)
	}
	return writeOutput(w, b.String())
}

func printPlacements(b *table.Page, placements []simulate.Placement) {
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
	_ = table.Write(b, rows) // a page accepts everything
	for _, p := range placements {
		for _, warning := range p.Warnings {
			b.Line("warning: %s/%s: %s", p.Namespace, p.Pod, warning)
		}
	}
}

// whyText returns the main reasons for a pod's CPUs: how many domains they span, and how they lie on cores.
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
	set, _ := cpuset.Of(ids...) // ids beyond a set's range are not shown
	return set.String()
}

func printPending(b *table.Page, pending []simulate.Pending) {
	for _, p := range pending {
		if p.SameAs != "" {
			b.Line("%s/%s: as %s", p.Namespace, p.Pod, p.SameAs)
			continue
		}
		b.Line("%s/%s: %s", p.Namespace, p.Pod, p.Reason)
		printNodeReasons(b, p.Nodes)
		if p.Repack != nil {
			printRepack(b, "  ", p.Repack)
		}
		for _, warning := range p.Warnings {
			b.Line("  warning: %s", warning)
		}
	}
}

// detailsShown bounds the lines per pending pod; the other formats have all lines.
const detailsShown = 8

func printNodeReasons(b *table.Page, nodes []simulate.NodeReason) {
	for i, n := range nodes {
		if i == detailsShown {
			b.Line("  … and %s more (-o json has all)", unit.Count(len(nodes)-i, "node"))
			return
		}
		b.Line("  %s: %s", n.Node, n.Detail)
	}
}

func printNodes(b *table.Page, r simulate.Report) error {
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
	_ = table.Write(b, rows) // a page accepts everything
	return printPictures(b, r.Nodes)
}

func change(before, after int) string {
	if before == after {
		return strconv.Itoa(after)
	}
	return fmt.Sprintf("%d -> %d", before, after)
}

// picturesShown bounds the nodes that a text draws, imagesShown the nodes of an image.
const (
	picturesShown = 6
	imagesShown   = 64
)

// printPictures draws the nodes on which pods have exclusive CPUs, with a letter for each pod.
func printPictures(b *table.Page, nodes []simulate.Node) error {
	pictures, more, err := nodePictures(nodes, picturesShown)
	if err != nil {
		return err
	}
	for i := range pictures {
		drawNode(b, &pictures[i])
	}
	if more != "" {
		fmt.Fprintf(b, "\n%s\n", more)
	}
	return nil
}

// nodePictures returns pictures of the first nodes with pinned pods, and a text about other such nodes.
func nodePictures(nodes []simulate.Node, shown int) (pictures []picture.Picture, more string, err error) {
	drawn := 0
	for i := range nodes {
		n := &nodes[i]
		if n.Machine() == nil || len(n.Held) == 0 {
			continue
		}
		if drawn++; drawn > shown {
			continue
		}
		p, err := nodePicture(n)
		if err != nil {
			return nil, "", err
		}
		pictures = append(pictures, p)
	}
	if drawn > shown {
		more = fmt.Sprintf("… and %s more with pinned pods", unit.Count(drawn-shown, "node"))
	}
	return pictures, more, nil
}

func nodePicture(n *simulate.Node) (picture.Picture, error) {
	p := picture.Picture{Name: n.Name, Machine: n.Machine()}
	pinnable, err := cpuset.Parse(n.Pinnable)
	if err != nil {
		return p, fmt.Errorf("node %s: %w", n.Name, err)
	}
	pinnable = pinnable.Difference(n.Machine().Efficiency())
	var empty cpuset.Set
	for _, held := range n.Held {
		empty = empty.Union(held.LeftEmpty)
		p.Holders = append(p.Holders, held.Pod)
	}
	p.Mark = func(cpu int) picture.Mark {
		i := slices.IndexFunc(n.Held, func(held simulate.Held) bool { return held.CPUs.Contains(cpu) })
		switch {
		case i >= 0:
			return picture.Mark{Kind: picture.Held, Holder: i}
		case empty.Contains(cpu):
			return picture.Mark{Kind: picture.Empty}
		case !pinnable.Contains(cpu):
			return picture.Mark{Kind: picture.Off}
		default:
			return picture.Mark{Kind: picture.Free}
		}
	}
	return p, nil
}

// drawNode draws one node as text, with a legend of its pods.
func drawNode(b *table.Page, p *picture.Picture) {
	b.WriteByte('\n')
	b.Line("%s", p.Name)
	b.WriteString(p.Text("  "))
	for i, holder := range p.Holders {
		b.Line("  %c  %s", picture.Mark{Kind: picture.Held, Holder: i}.Sign(), holder)
	}
	if p.Has(picture.Empty) {
		b.Line("  %c  %s", picture.Mark{Kind: picture.Empty}.Sign(), picture.Empty.Word())
	}
}

// drawReport draws the nodes with pinned pods as an image, with the pending pods below.
func drawReport(w io.Writer, r simulate.Report) error {
	pictures, more, err := nodePictures(r.Nodes, imagesShown)
	if err != nil {
		return err
	}
	var notes []string
	if more != "" {
		notes = append(notes, more)
	}
	for _, p := range r.Pending {
		notes = append(notes, fmt.Sprintf("pending: %s/%s: %s", p.Namespace, p.Pod, cmp.Or(p.Reason, "as "+p.SameAs)))
	}
	return writeSVG(w, reportTitle(r), pictures, notes...)
}
