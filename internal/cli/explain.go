package cli

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/agent/view"
	"github.com/berth-project/berth/internal/capability"
	"github.com/berth-project/berth/internal/intent/manifest"
	"github.com/berth-project/berth/internal/intent/workload"
	"github.com/berth-project/berth/internal/linux/program"
	"github.com/berth-project/berth/internal/value/table"
)

// explanation is the output of berth explain.
type explanation struct {
	Workload view.Status
	Applied  []applied
	// views are the capabilities' statements about the workload, in their order.
	views []capability.WorkloadView
	// programs are the programs of the workload's processes, nil if its quota does not move.
	programs *program.Found
}

// MarshalJSON implements json.Marshaler.
func (x explanation) MarshalJSON() ([]byte, error) {
	all := capability.Joined{capability.Sections{"workload": x.Workload}}
	for _, v := range x.views {
		all = append(all, v.Node)
	}
	all = append(all, capability.Sections{"applied": x.Applied})
	for _, v := range x.views {
		all = append(all, v.Sections)
	}
	if x.programs != nil {
		all = append(all, capability.Sections{"programs": x.programs})
	}
	return all.MarshalJSON()
}

// explainNames completes pod names if the argument cannot be a workload of this host.
func (k *kubeFlags) explainNames(cmd *cobra.Command, plugin bool, args []string, begun string) (names []string, done bool) {
	switch {
	case len(args) == 1 && isPodKind(args[0]):
		return k.podCompletions(cmd, ""), true
	case len(args) > 0:
		return nil, true
	case plugin || strings.HasPrefix(begun, "pod/"):
		return k.podCompletions(cmd, "pod/"), true
	}
	return nil, false
}

func newExplainCommand(g *globals) *cobra.Command {
	var config string
	var kube kubeFlags
	cmd := &cobra.Command{
		Use:   "explain WORKLOAD | pod/NAME",
		Short: "Say why a workload has this quota now, or a pod these CPUs",
		Long: `Shows what Berth observes of one workload, which rule decides its quota, with the
figures, and what the agent wrote. If the quota moves, the output names the processes
that adapt to it: Go programs and Java virtual machines. The command only reads.

A container of this node has the name namespace/pod/container.

With pod/NAME the command asks a Kubernetes cluster: one list request each for nodes,
NodeTopologies, pods and the agents' Leases. For a bound pod it shows the CPUs and memory
nodes of its containers, and compares them with a new placement. For a pending pod it
shows why each node refuses it now, or which node would take it. If a copy of this
program is called kubectl-berth, "kubectl berth explain pod/NAME" does the same.`,
		Example: "  berth explain redis\n  berth explain pod/go-demo-7d9f-x2x4z -n shop\n  kubectl berth explain pod/go-demo-7d9f-x2x4z",
		Args:    explainArgs,
		ValidArgsFunction: func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
			if names, done := kube.explainNames(cmd, g.program.plugin(), args, begun); done {
				return names, cobra.ShellCompDirectiveNoFileComp
			}
			const quiet = cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
			s, err := readStatus(cmd, g, config)
			if err != nil {
				return []string{"pod/"}, quiet
			}
			return append(s.names(), "pod/"), quiet
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if name, isPod := podArgument(args); isPod {
				return kube.explainPod(cmd, g, name)
			}
			if err := refuseFlags(cmd, "only allowed with pod/NAME", "kubeconfig", "context", "namespace"); err != nil {
				return err
			}
			format, err := g.format("table", "json", "yaml")
			if err != nil {
				return err
			}
			x, err := g.explain(cmd, config, args[0])
			if err != nil {
				return err
			}
			return show(cmd.OutOrStdout(), format, x, func(w io.Writer) error {
				return writeText(w, x.text())
			})
		},
	}
	configFlag(cmd, &config)
	kube.register(cmd)
	return cmd
}

// explain combines what the agent, the files and the host say about a workload.
func (g *globals) explain(cmd *cobra.Command, config, name string) (explanation, error) {
	s, err := readStatus(cmd, g, config)
	if err != nil {
		return explanation{}, err
	}
	x, err := s.explain(name)
	switch broken := inFiles(s.config, config, name); {
	case err != nil && broken != nil:
		return x, usageError(fmt.Errorf("workload %q does not count: %w", name, broken))
	case err != nil:
		return x, err
	case broken != nil: // its previous version is in effect
		x.Workload.Warnings = append(x.Workload.Warnings, broken.Error())
	}
	x.programs = g.programs(cmd.Context(), x)
	return x, nil
}

// explainArgs accepts the name of a workload, or a pod in either form.
func explainArgs(cmd *cobra.Command, args []string) error {
	if len(args) != 1 && (len(args) != 2 || !isPodKind(args[0])) {
		return usageError(fmt.Errorf("%s takes one workload name or pod/NAME, got %d arguments", cmd.CommandPath(), len(args)))
	}
	if len(args) == 1 && isPodKind(args[0]) {
		return usageError(errNoPodName)
	}
	// A container of this node has the name namespace/pod/container.
	if kind, _, slash := strings.Cut(args[0], "/"); slash && !isPodKind(kind) && strings.Count(args[0], "/") != 2 {
		return usageError(fmt.Errorf("%q: allowed: of a cluster only pod/NAME; of this node also NAMESPACE/POD/CONTAINER", args[0]))
	}
	return nil
}

// explain returns the explanation of one workload of the status.
func (s status) explain(name string) (explanation, error) {
	if !s.Agent.Alive {
		return explanation{}, errNoAgent
	}
	for i, w := range s.Workloads {
		if w.Name != name {
			continue
		}
		x := explanation{Workload: w, Applied: []applied{}, views: s.views.workloads[i]}
		for _, a := range s.Applied {
			if a.Workload == name || a.Group != "" && a.Group == w.Group {
				x.Applied = append(x.Applied, a)
			}
		}
		return x, nil
	}
	return explanation{}, usageError(fmt.Errorf("workload %q is not known: allowed: %s", name, strings.Join(s.names(), ", ")))
}

// inFiles returns what is wrong with the document of a workload, nil if it is readable. Only the file name may identify
// an unreadable document.
func inFiles(cfg v1alpha1.AgentConfig, config, name string) error {
	if cfg.WorkloadDir == "" {
		return nil
	}
	loaded, err := manifest.LoadWorkloads(cfg.WorkloadDir, manifest.Before{}, workload.AdministratorOf(config, cfg))
	if err != nil {
		return nil //nolint:nilerr // the agent says what is wrong with the directory
	}
	for _, p := range loaded.Problems {
		file, _, _ := strings.Cut(filepath.Base(p.File), ".")
		if p.Kind == manifest.Invalid && (p.Workload == name || p.Workload == "" && file == name) {
			return p.Err
		}
	}
	return nil
}

// names returns the names of the agent's workloads.
func (s status) names() []string {
	names := make([]string, 0, len(s.Workloads))
	for _, w := range s.Workloads {
		names = append(names, w.Name)
	}
	return names
}

// text formats the explanation in sentences, one fact per line.
func (x explanation) text() string {
	var b table.Page
	w := x.Workload
	reason := ""
	if w.Reason != "" {
		reason = ": " + w.Reason
	}
	b.Line("%s is %s since %s%s", w.Name, w.State, w.Since.Format(time.RFC3339), reason)
	b.Line("  file      %s", w.File)
	b.Line("  group     %s", w.Group)
	b.Line("  policy    %s, from %s", w.Policy, w.PolicySource)
	for _, v := range x.views {
		for _, line := range v.Lines {
			b.Line("  %s", line)
		}
	}
	for _, line := range programLines(x.programs) {
		b.Line("  programs  %s", line)
	}
	for _, warning := range w.Warnings {
		b.Line("  warning   %s", warning)
	}
	for _, a := range x.Applied {
		label := "wrote"
		if a.Group != w.Group {
			label = "for it" // other groups, such as groups that made room
		}
		b.Line("  %-9s %s: original %q, now %q (%s); writes: %d since %s",
			label, where(a.File, a.Group, a.Knob), a.Original, a.Current, a.State, a.Writes, a.Since.Format(time.RFC3339))
		b.Line("            first reason: %s", a.Why)
	}
	return b.String()
}
