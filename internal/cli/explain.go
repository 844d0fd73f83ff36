package cli

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-project/berth/internal/agent"
)

// explanation is the output of berth explain.
type explanation struct {
	Workload agent.Status `json:"workload"`
	Node     agent.Node   `json:"node"`
	Applied  []applied    `json:"applied"`
	// CPUs are what its processes may run on, empty while no workload asks for any.
	CPUs []agent.ContainerCPUs `json:"cpus,omitempty"`
}

func newExplainCommand(g *globals) *cobra.Command {
	var config string
	var kube kubeFlags
	cmd := &cobra.Command{
		Use:   "explain WORKLOAD | pod/NAME",
		Short: "Say why a workload has this quota now, or a pod these CPUs",
		Long: `Says what Berth sees of one workload, which rule decides its quota with the
numbers in it, and what was written. It only reads.

With pod/NAME it asks a Kubernetes cluster, with one list request for nodes,
NodeTopologies, pods and the agents' Leases each. Of a bound pod it says which CPUs and memory nodes
its containers have, and how they compare with what a new placement would get;
of a pending one what each node says to it now. Where a copy of this program is
called kubectl-berth, "kubectl berth explain pod/NAME" is the same.`,
		Example: "  berth explain redis\n  berth explain pod/go-demo-7d9f-x2x4z -n shop\n  kubectl berth explain pod/go-demo-7d9f-x2x4z",
		Args:    explainArgs,
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			const quiet = cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
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
			if err := noClusterFlags(cmd); err != nil {
				return err
			}
			format, err := g.format("table", "json", "yaml")
			if err != nil {
				return err
			}
			s, err := readStatus(cmd, g, config)
			if err != nil {
				return err
			}
			x, err := s.explain(args[0])
			if err != nil {
				return err
			}
			return show(cmd.OutOrStdout(), format, x, func(w io.Writer) error {
				_, err := io.WriteString(w, x.text())
				return err //nolint:wrapcheck // a closed standard output needs no context
			})
		},
	}
	configFlag(cmd, &config)
	kube.register(cmd)
	return cmd
}

// explainArgs takes the name of a workload, or a pod in either form.
func explainArgs(cmd *cobra.Command, args []string) error {
	if len(args) != 1 && (len(args) != 2 || !isPodKind(args[0])) {
		return usageError(fmt.Errorf("%s takes one workload name or pod/NAME, got %d arguments", cmd.CommandPath(), len(args)))
	}
	if len(args) == 1 && isPodKind(args[0]) {
		return usageError(errNoPodName)
	}
	if kind, _, slash := strings.Cut(args[0], "/"); slash && !isPodKind(kind) {
		return usageError(fmt.Errorf("%q: allowed: of a cluster only pod/NAME", args[0]))
	}
	return nil
}

// explain picks one workload out of the status.
func (s status) explain(name string) (explanation, error) {
	if !s.Agent.Alive {
		return explanation{}, fmt.Errorf("no agent runs: start berth agent, or see berth status for what is left on the host")
	}
	for _, w := range s.Workloads {
		if w.Name != name {
			continue
		}
		x := explanation{Workload: w, Node: s.Node, Applied: []applied{}}
		for _, a := range s.Applied {
			if a.Workload == name {
				x.Applied = append(x.Applied, a)
			}
		}
		x.CPUs = s.cpusOf(name)
		return x, nil
	}
	return explanation{}, usageError(fmt.Errorf("workload %q is not known: allowed: %s", name, strings.Join(s.names(), ", ")))
}

// cpusOf are the CPUs that a workload has, or was refused.
func (s status) cpusOf(name string) []agent.ContainerCPUs {
	var all []agent.ContainerCPUs
	if s.CPUs == nil {
		return nil
	}
	for _, c := range s.CPUs.Containers {
		if c.Pod == name && (c.CPUs != "" || c.Refused != "") {
			all = append(all, c)
		}
	}
	return all
}

// names are those of the workloads that the agent knows.
func (s status) names() []string {
	names := make([]string, 0, len(s.Workloads))
	for _, w := range s.Workloads {
		names = append(names, w.Name)
	}
	return names
}

// text is the explanation in sentences, one fact a line.
func (x explanation) text() string {
	var b strings.Builder
	w := x.Workload
	fmt.Fprintf(&b, "%s is %s since %s", w.Name, w.State, w.Since.Format(time.RFC3339))
	if w.Reason != "" {
		fmt.Fprintf(&b, ": %s", w.Reason)
	}
	fmt.Fprintf(&b, "\n  file      %s\n  group     %s\n  policy    %s, from %s\n", w.File, w.Group, w.Policy, w.PolicySource)
	if w.Burst != nil {
		b.WriteString(x.burst(*w.Burst))
	}
	for _, c := range x.CPUs {
		fmt.Fprintf(&b, "  CPUs      %s: %s\n", cmp.Or(c.CPUs, "as before"), c.Why)
	}
	for _, warning := range w.Warnings {
		fmt.Fprintf(&b, "  warning   %s\n", warning)
	}
	for _, a := range x.Applied {
		fmt.Fprintf(&b, "  wrote     %s: original %q, now %q (%s); writes: %d since %s\n            first reason: %s\n",
			where(a.File, a.Group, a.Knob), a.Original, a.Current, a.State, a.Writes, a.Since.Format(time.RFC3339), a.Why)
	}
	return b.String()
}

func (x explanation) burst(s agent.Burst) string {
	var b strings.Builder
	quota := float64(s.QuotaMicros) / float64(max(s.PeriodMicros, 1))
	fmt.Fprintf(&b, "  limit     %.4g CPUs; the quota stands at %.4g CPUs (%d us in every %d us)\n",
		s.LimitCPUs, quota, s.QuotaMicros, s.PeriodMicros)
	fmt.Fprintf(&b, "  decision  %s\n", s.Decision)
	if s.CapacitySeconds < 0 {
		b.WriteString("  credit    without limit (cfsQuotaBurstPeriodSeconds -1)\n")
	} else {
		fmt.Fprintf(&b, "  credit    %.3f of %.3f CPU-seconds; one raise reserves %.3f and may use %.3f until the next look\n",
			s.CreditSeconds, s.CapacitySeconds, s.ReserveSeconds, s.ExposureSeconds)
	}
	if s.KernelBurst > 0 {
		fmt.Fprintf(&b, "  kernel    burst of %d us carried over between periods\n", s.KernelBurst)
	}
	if s.Limited != "" {
		fmt.Fprintf(&b, "  limited   %s\n", s.Limited)
	}
	fmt.Fprintf(&b, "  node      used to %.0f %% of %d CPUs; quotas are shared out from %.0f %% on\n",
		x.Node.UseRatio*100, x.Node.PoolCPUs, x.Node.Threshold*100)
	fmt.Fprintf(&b, "  throttled %d of %d periods; groups above it: %d periods\n", s.Throttled, s.Periods, s.AncestorThrottled)
	b.WriteString("  note      threads of real-time classes (FIFO, RR, deadline) run outside the CFS quota; what they use is charged to the credit\n")
	return b.String()
}
