package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	"k8s.io/client-go/rest"

	"github.com/berth-project/berth/internal/agent/history"
	"github.com/berth-project/berth/internal/agent/view"
	"github.com/berth-project/berth/internal/agent/web"
	"github.com/berth-project/berth/internal/agent/window"
	"github.com/berth-project/berth/internal/capability"
	"github.com/berth-project/berth/internal/cli/fleet"
	"github.com/berth-project/berth/internal/cli/top"
	"github.com/berth-project/berth/internal/engine/journal"
	"github.com/berth-project/berth/internal/scheduler/simulate"
	"github.com/berth-project/berth/internal/value/table"
)

// errNoAgent means that there is no agent to read.
var errNoAgent = errors.New("no agent runs: start berth agent, or see berth status for what is left on the host")

// errNodeGone means that a displayed node has left the cluster.
var errNodeGone = errors.New("the cluster has no such node any more")

func newTopCommand(g *globals) *cobra.Command {
	var config string
	var kube kubeFlags
	cmd := &cobra.Command{
		Use:   "top [NODE]",
		Short: "Show live who has which CPU, and the credit and throttling of workloads",
		Long: `Follows the agent of this host, and shows two parts in the terminal: the cores
by NUMA node and L3 domain, with their load and a letter for each workload that has
exclusive CPUs; and each workload with quota, credit and throttling, its own and that of
the groups above. The command only reads. It needs root, as the agent's socket does.

With --kubeconfig or --context it shows the nodes of a cluster and the pods that wait,
and with NODE a single node. kubectl berth top does the same; its help has more.

Without a terminal, or if TERM is dumb, it prints one plain frame of one second.
NO_COLOR turns colours off. -o json prints the agent's view (docs/view.md).`,
		Example:           "  sudo berth top\n  sudo berth top | head\n  sudo berth top -o json\n  berth top --kubeconfig ~/.kube/config",
		Args:              nodeAtMost,
		ValidArgsFunction: kube.completeNode,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := rootless(cmd); err != nil {
				return err
			}
			if len(args) > 0 || kube.chosen(cmd) {
				if err := refuseFlags(cmd, withoutCluster, "config"); err != nil {
					return err
				}
				return g.showCluster(cmd, &kube, args)
			}
			cfg, err := loadState(cmd, config)
			if err != nil {
				return err
			}
			return g.showHost(cmd, looked{
				stream: func(ctx context.Context) (io.ReadCloser, error) {
					if err := requireAgent(cfg.StateDir); err != nil {
						return nil, err
					}
					return window.Stream(ctx, cfg.StateDir, window.PatchesPath)
				},
				look: func(ctx context.Context) (*view.View, error) { return lookLive(ctx, cfg.StateDir) },
				past: func(ctx context.Context, workload string) *history.Past {
					return kept(window.Past(ctx, cfg.StateDir, workload, top.PastSeconds, top.PastStep))
				},
			})
		},
	}
	configFlag(cmd, &config)
	kube.registerCluster(cmd)
	return cmd
}

func newClusterTopCommand(g *globals) *cobra.Command {
	var kube kubeFlags
	cmd := &cobra.Command{
		Use:   "top [NODE]",
		Short: "Show what is free on the nodes of the cluster and which pods wait, or one node",
		Long: `Shows each node with its free CPUs, its wholly free L3 domains and, if Berth pins no pod
there, the reason. Nodes with the most room come first. Below are the pods without a
node, and what each pod waits for. The command reads NodeTopologies, nodes, pods and
Leases with your rights.

With NODE it shows the cores and workloads of one node, through its agent, as berth top
does on a host. That needs the rights of kubectl berth web NODE.

-o json prints both as documented in docs/view.md.`,
		Example:           "  berth top\n  berth top node-a\n  berth top -o json",
		Args:              nodeAtMost,
		ValidArgsFunction: kube.completeNode,
		RunE:              func(cmd *cobra.Command, args []string) error { return g.showCluster(cmd, &kube, args) },
	}
	kube.registerCluster(cmd)
	return cmd
}

// looked is a host to show.
type looked struct {
	// stream opens a stream of its views, until the context ends.
	stream func(context.Context) (io.ReadCloser, error)
	// look returns its present view.
	look func(context.Context) (*view.View, error)
	// past returns what is remembered about a workload; nil if it cannot be asked.
	past func(ctx context.Context, workload string) *history.Past
}

// kept decodes what an agent remembers about a workload; nil for nothing, as with older agents.
func kept(text []byte, err error) *history.Past {
	if err != nil {
		return nil // the next read reports that the agent is away
	}
	var p history.Past
	if err := json.Unmarshal(text, &p); err != nil || p.Format != history.Format {
		return nil
	}
	return &p
}

// pastAt asks a node's agent what it remembers about workloads.
func pastAt(page *fleet.Page) func(context.Context, string) *history.Past {
	return func(ctx context.Context, workload string) *history.Past {
		return kept(page.Past(ctx, workload, top.PastSeconds, top.PastStep))
	}
}

// showHost shows one host until the user quits, or one frame.
func (g *globals) showHost(cmd *cobra.Command, h looked) error {
	format, err := g.format("table", "json", "yaml")
	if err != nil {
		return err
	}
	if format == "table" && isTerminal(cmd) {
		return h.follow(cmd, g)
	}
	first, err := h.look(cmd.Context())
	if err != nil {
		return err
	}
	return printFrame(cmd, format, first, h.look)
}

// follow shows one host until the user quits.
func (h looked) follow(cmd *cobra.Command, g *globals) error {
	ctx, end := context.WithCancel(cmd.Context())
	defer end() // ends the stream
	views := web.NewFollower(h.stream)
	first, err := views.Next(ctx)
	if err != nil {
		return err
	}
	return top.Run(ctx, first, top.Options{Look: views.Next, Explain: g.explainLines, Report: reportLines(g.capabilities), Past: h.past, Terminal: terminalOf(cmd)})
}

// showCluster shows a cluster, or its node that args name.
func (g *globals) showCluster(cmd *cobra.Command, kube *kubeFlags, args []string) error {
	format, err := g.format("table", "json", "yaml")
	if err != nil {
		return err
	}
	cfg, _, err := kube.config()
	if err != nil {
		return err
	}
	if len(args) > 0 {
		page, err := fleet.Open(cmd.Context(), cfg, args[0], slog.New(slog.DiscardHandler))
		if err != nil {
			return fmt.Errorf("no view of node %s: %w", args[0], err)
		}
		return g.showHost(cmd, looked{stream: page.Stream, look: page.View, past: pastAt(page)})
	}
	if format == "table" && isTerminal(cmd) {
		return g.followCluster(cmd, cfg)
	}
	objects, err := simulate.Observe(cmd.Context(), cfg)
	if err != nil {
		return err
	}
	v := simulate.New(objects).View()
	v.Server = cfg.Host
	return show(cmd.OutOrStdout(), format, v, func(w io.Writer) error { return top.PlainCluster(w, v) })
}

// followCluster shows a cluster and its nodes until the user quits.
func (g *globals) followCluster(cmd *cobra.Command, cfg *rest.Config) error {
	cluster, err := fleet.Follow(cmd.Context(), cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	defer cluster.Close()
	return top.RunCluster(cmd.Context(), cluster.View(), top.ClusterOptions{
		Look: cluster.View, Explain: g.explainLines, Report: reportLines(g.capabilities), Terminal: terminalOf(cmd),
		Node: func(name string) func(context.Context) (*view.View, error) {
			return web.NewFollower(func(ctx context.Context) (io.ReadCloser, error) {
				page, there := cluster.Node(name)
				if !there {
					return nil, errNodeGone
				}
				return page.Stream(ctx)
			}).Next
		},
		Past: func(ctx context.Context, name, workload string) *history.Past {
			page, there := cluster.Node(name)
			if !there {
				return nil
			}
			return pastAt(page)(ctx, workload)
		},
	})
}

// isTerminal reports whether a command reads from a terminal and writes to a terminal.
func isTerminal(cmd *cobra.Command) bool {
	return isScreen(cmd.InOrStdin()) && isScreen(cmd.OutOrStdout())
}

func terminalOf(cmd *cobra.Command) top.Terminal {
	return top.Terminal{In: cmd.InOrStdin(), Out: raw(cmd.OutOrStdout()), Environ: os.Environ()}
}

// lookLive asks the agent, which must be alive.
func lookLive(ctx context.Context, stateDir string) (*view.View, error) {
	if err := requireAgent(stateDir); err != nil {
		return nil, err
	}
	return ask(ctx, stateDir)
}

// requireAgent returns an error if no agent is alive.
func requireAgent(stateDir string) error {
	_, alive, err := journal.Holder(stateDir)
	if err != nil {
		return fmt.Errorf("stateDir: %w", err)
	}
	if !alive {
		return errNoAgent
	}
	return nil
}

// isScreen reports whether a stream is a terminal that can move its cursor.
func isScreen(stream any) bool {
	file, ok := stream.(interface{ Fd() uintptr })
	return ok && os.Getenv("TERM") != "dumb" && term.IsTerminal(int(file.Fd()))
}

// printFrame prints a second view, which has the loads since the first.
func printFrame(cmd *cobra.Command, format string, first *view.View, look func(context.Context) (*view.View, error)) error {
	select {
	case <-cmd.Context().Done():
		return cmd.Context().Err() //nolint:wrapcheck // the user ended it
	case <-time.After(time.Second):
	}
	now, err := look(cmd.Context())
	if err != nil {
		return err
	}
	return show(cmd.OutOrStdout(), format, now, func(w io.Writer) error {
		return writeText(w, top.Plain(w, first, now))
	})
}

// explainLines returns berth explain's text for a workload of a view, without the values on the host. It returns nil if
// no capability reports the workload.
func (g *globals) explainLines(v *view.View, name string) []string {
	for _, w := range v.Statuses() {
		if w.Name != name {
			continue
		}
		said, err := readWorkload(g.capabilities, capability.Reported{Alive: true, Node: v.Node, Workload: w.Workload, Row: w.Sections})
		if err != nil {
			return []string{err.Error()}
		}
		return strings.Split(strings.TrimSpace(explanation{Workload: w, views: said}.text()), "\n")
	}
	return nil
}

// reportLines returns berth status's text about the node of a view: first a line for each capability that has a summary.
func reportLines(all []capability.Info) func(*view.View) []string {
	return func(v *view.View) []string {
		said, err := readNode(all, capability.Reported{Alive: true, Node: v.Node})
		if err != nil {
			return []string{err.Error()}
		}
		var page table.Page
		for _, n := range said.nodes {
			if n.Headline != "" {
				page.Line("%s", n.Headline)
			}
		}
		said.printNode(&page)
		if page.Len() == 0 {
			return nil
		}
		return strings.Split(strings.TrimSuffix(page.String(), "\n"), "\n")
	}
}
