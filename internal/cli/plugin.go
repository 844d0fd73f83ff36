package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/cli/picture"
	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/scheduler/simulate"
	"github.com/berth-project/berth/internal/value/cpuset"
	"github.com/berth-project/berth/internal/value/table"
)

// asPlugin rewrites every help text to the command that a user of kubectl types.
func asPlugin(root *cobra.Command, p Program) {
	root.Use = p.Name
	root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: p.display()}
	root.Short = "The right cores, memory and quota for every CPU-sensitive workload of a cluster"
	root.PersistentFlags().Lookup("root").Hidden = true // no tree replaces a cluster
	names := strings.NewReplacer(
		"berth topology -o", p.display()+" topology node-a -o", // of a host, there
		p.display()+" ", p.display()+" ", "berth ", p.display()+" ",
	)
	var rename func(cmd *cobra.Command)
	rename = func(cmd *cobra.Command) {
		cmd.Example = names.Replace(cmd.Example)
		for _, sub := range cmd.Commands() {
			rename(sub)
		}
	}
	rename(root)
}

// nodesReport is the output of kubectl berth status; its JSON is a stable contract.
type nodesReport struct {
	Nodes []nodeReport `json:"nodes"`
}

// nodeReport is what the agent of a node last published.
type nodeReport struct {
	Name   string                      `json:"name"`
	Status v1alpha1.NodeTopologyStatus `json:"status"`
}

func newNodesCommand(g *globals) *cobra.Command {
	var kube kubeFlags
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show what is pinned and free on each node of the cluster",
		Long: `Shows what the agent of each node published last: how many CPUs it has, which of
them containers have exclusively, how many are free, and whether Berth can pin
there. It reads NodeTopologies, nodes, pods and Leases of the cluster, one list
request each.`,
		Example: "  berth status\n  berth status -o json",
		Args:    noArgs,
		RunE: formatted(g, func(cmd *cobra.Command, _ []string, format string) error {
			objects, _, err := kube.observe(cmd.Context())
			if err != nil {
				return err
			}
			report := nodesReport{Nodes: []nodeReport{}}
			for i := range objects.Topologies {
				report.Nodes = append(report.Nodes, nodeReport{objects.Topologies[i].Name, objects.Topologies[i].Status})
			}
			return show(cmd.OutOrStdout(), format, report, report.print)
		}),
	}
	kube.registerCluster(cmd)
	return cmd
}

func (r nodesReport) print(w io.Writer) error {
	rows := [][]string{{"NODE", "CPUS", "FREE", "EXCLUSIVE", "OFFLINE", "FRAGMENTATION", "PINNABLE", "AGENT"}}
	for _, n := range r.Nodes {
		pinnable := n.Status.NotPinnable()
		if pinnable == "" {
			pinnable = "yes"
		}
		rows = append(rows, []string{
			n.Name, fmt.Sprint(n.Status.Counts.CPUs), fmt.Sprint(n.Status.FreeCPUs),
			textOrDash(string(n.Status.Pools.Exclusive)), textOrDash(string(n.Status.Pools.Offline)),
			fmt.Sprintf("%d %%", n.Status.Fragmentation), pinnable, textOrDash(n.Status.AgentVersion),
		})
	}
	return table.Write(w, rows)
}

var errNoNodeName = errors.New("node name: missing: allowed: the name of a node with a NodeTopology")

func newNodeMachineCommand(g *globals) *cobra.Command {
	var kube kubeFlags
	cmd := &cobra.Command{
		Use:   "topology NODE",
		Short: "Show sockets, NUMA nodes, caches and cores of a node",
		Long: `Shows the machine of a node as its agent published it: as a tree, as a table with
a line per core (-o table), as JSON or YAML, or as an image (-o svg), in which
the CPUs that containers have exclusively are taken.`,
		Example: "  berth topology node-a\n  berth topology node-a -o svg >node-a.svg",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usageError(errNoNodeName)
			}
			return nil
		},
		ValidArgsFunction: kube.completeNode,
		RunE: func(cmd *cobra.Command, args []string) error {
			format, err := g.format(slices.DeleteFunc(topologyFormats(), func(f string) bool { return f == formatNodeTopology })...)
			if err != nil {
				return err
			}
			objects, _, err := kube.observe(cmd.Context())
			if err != nil {
				return err
			}
			return printNode(cmd.OutOrStdout(), format, objects, args[0])
		},
	}
	kube.registerCluster(cmd)
	return cmd
}

func topologyNames(o simulate.Objects) []string {
	var names []string
	for i := range o.Topologies {
		names = append(names, o.Topologies[i].Name)
	}
	return names
}

// printNode prints the machine of one node of a cluster.
func printNode(w io.Writer, format string, o simulate.Objects, name string) error {
	i := slices.Index(topologyNames(o), name)
	if i < 0 {
		return usageError(fmt.Errorf("node %q has no NodeTopology: allowed: %s", name, someOf(topologyNames(o))))
	}
	t, err := topology.FromSpec(o.Topologies[i].Spec)
	if err != nil {
		return fmt.Errorf("NodeTopology %s: %w", name, err)
	}
	if format != formatSVG {
		return printTopology(w, format, t)
	}
	taken, err := cpuset.Parse(string(o.Topologies[i].Status.Pools.Exclusive))
	if err != nil {
		return fmt.Errorf("NodeTopology %s: status.pools.exclusive: %w", name, err)
	}
	drawn := machinePicture(t)
	drawn.Name = name
	mark := drawn.Mark
	drawn.Mark = func(cpu int) picture.Mark {
		if taken.Contains(cpu) {
			return picture.Mark{Kind: picture.Taken}
		}
		return mark(cpu)
	}
	return writeSVG(w, summary(t), []picture.Picture{drawn})
}

// completionTimeout bounds how long a shell waits for names.
const completionTimeout = 3 * time.Second

// completions returns names from a cluster, none if the cluster does not answer within completionTimeout.
func (k *kubeFlags) completions(cmd *cobra.Command, names func(o simulate.Objects, namespace string) []string) []string {
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
	defer cancel()
	objects, namespace, err := k.observe(ctx)
	if err != nil {
		return nil
	}
	return names(objects, namespace)
}

// completeNode completes the only argument of a command, a node name.
func (k *kubeFlags) completeNode(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return k.completions(cmd, func(o simulate.Objects, _ string) []string { return topologyNames(o) }), cobra.ShellCompDirectiveNoFileComp
}

// podCompletions completes a pod name in either form of the argument.
func (k *kubeFlags) podCompletions(cmd *cobra.Command, prefix string) []string {
	return k.completions(cmd, func(o simulate.Objects, namespace string) []string {
		names := simulate.New(o).PodNames(namespace)
		for i := range names {
			names[i] = prefix + names[i]
		}
		return names
	})
}
