package cli

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-project/berth/internal/cli/restoration"
	"github.com/berth-project/berth/internal/value/table"
)

// mostWait bounds how long a command waits for the agents of a cluster.
const mostWait = time.Hour

// clusterRollback are the flags of a rollback by the agents of a cluster.
type clusterRollback struct {
	kube    kubeFlags
	timeout time.Duration
}

// flags registers the flags; when says in which case they take effect.
func (o *clusterRollback) flags(cmd *cobra.Command, when string) {
	o.kube.add(cmd, when)
	cmd.Flags().DurationVar(&o.timeout, "timeout", 4*time.Minute, when+"how long to wait for the agents")
}

// restorationReport is the output of a rollback by the agents of a cluster; its JSON is a stable contract.
type restorationReport struct {
	Nodes []restoration.Node `json:"nodes"`
}

func newClusterRollbackCommand(g *globals) *cobra.Command {
	var o clusterRollback
	cmd := &cobra.Command{
		Use:   "rollback",
		Short: "Have the agents of the cluster put every original value back",
		Long: `Sets state: restore in the ConfigMap berth-system/berth-config, and waits until each
live agent has put back every value that it changed. An agent counts as absent once its
Lease has not changed for two minutes, whatever the clocks say. The command names its
node: run berth rollback there. It also names agents that are not done in time (exit
code 4); these go on. No agent writes to its node until you remove the key state.

An agent in a pod does not reach systemd. If the container runtime uses the systemd
driver, the next daemon-reload without an agent brings back Berth's answers, until the
container ends. Once the agents are gone, run berth rollback on each such node.`,
		Example: "  berth rollback\n  berth rollback --timeout 10m -o json",
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return o.run(cmd, g) },
	}
	o.flags(cmd, "")
	return cmd
}

func (o *clusterRollback) run(cmd *cobra.Command, g *globals) error {
	format, err := g.format("table", "json", "yaml")
	if err != nil {
		return err
	}
	if o.timeout <= 0 || o.timeout > mostWait {
		return usageError(fmt.Errorf("--timeout %v: allowed: more than 0, at most %v", o.timeout, mostWait))
	}
	cfg, _, err := o.kube.config()
	if err != nil {
		return err
	}
	nodes, failed := restoration.Run(cmd.Context(), restoration.Options{
		Config: cfg, Timeout: o.timeout, Now: time.Now, Progress: changesTo(cmd.ErrOrStderr()),
	})
	if len(nodes) == 0 && failed != nil { // the command learned nothing about any node
		return failed
	}
	report := restorationReport{Nodes: append([]restoration.Node{}, nodes...)}
	return errors.Join(show(cmd.OutOrStdout(), format, report, report.print), failed)
}

// changesTo returns a function that prints its text to w whenever it changes. It also writes to the log of a Job.
func changesTo(w io.Writer) func(string) {
	last := ""
	return func(what string) {
		if what != last {
			_, _ = fmt.Fprintln(w, table.Clean(what))
		}
		last = what
	}
}

func (r restorationReport) print(w io.Writer) error {
	rows := [][]string{{"NODE", "STATE", "TEXT"}}
	for _, n := range r.Nodes {
		rows = append(rows, []string{n.Name, string(n.State), n.Text})
	}
	return table.Write(w, rows)
}

// only refuses flags that do not fit: those of this host with --cluster, and the reverse.
func (o *clusterRollback) only(cmd *cobra.Command, cluster bool) error {
	if cluster {
		return refuseFlags(cmd, "only allowed without --cluster", "config", "owner", "dry-run", "leave-drifted", "root")
	}
	return refuseFlags(cmd, "only allowed with --cluster", "kubeconfig", "context", "timeout")
}
