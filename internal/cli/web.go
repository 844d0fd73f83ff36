package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/berth-project/berth/internal/agent/web"
	"github.com/berth-project/berth/internal/agent/window"
	"github.com/berth-project/berth/internal/cli/fleet"
	"github.com/berth-project/berth/internal/value/unit"
)

// errToken means that the agent shows its page only to requests with a token.
var errToken = errors.New("the agent of a cluster wants a bearer token")

// errAgentEnded means that there is nothing more to record.
var errAgentEnded = errors.New("the agent ended")

// webOptions are the flags of berth web.
type webOptions struct {
	kube   kubeFlags
	config string
	replay string
	port   uint16
}

func newWebCommand() *cobra.Command {
	var o webOptions
	cmd := &cobra.Command{
		Use:   "web [NODE]",
		Short: "Print the link to the page of this host, or show a cluster or a recording",
		Long: `Prints the link to the page of this host's agent. The page shows who has which CPU and how
busy it is, quota, credit and throttling of each workload, events, and each value that
Berth changed. Only programs of this host reach it. From another host forward the port,
as with ssh -L 9316:127.0.0.1:9316 HOST. The agent of a cluster shows the page to anyone
who has a token with the role berth-viewer.

With --kubeconfig or --context the page shows the nodes of a cluster and the pods that
wait, and with NODE a single node. kubectl berth web does the same; its help has more.

--replay FILE plays a recording of berth status --watch -o json in the same page, at a
port of the loopback address until Ctrl-C. It needs no agent and no root.`,
		Example: "  berth web\n  berth web --kubeconfig ~/.kube/config\n  sudo berth status --watch -o json > node.jsonl\n  berth web --replay node.jsonl",
		Args:    nodeAtMost,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := rootless(cmd); err != nil {
				return err
			}
			if len(args) > 0 || o.kube.chosen(cmd) {
				if err := refuseFlags(cmd, withoutCluster, "config"); err != nil {
					return err
				}
				return o.showCluster(cmd, args)
			}
			if o.replay != "" {
				return showRecording(cmd, o.replay, o.port)
			}
			if o.port != 0 {
				return usageError(errors.New("--port: only allowed with --replay or a cluster; the agent's address is listen in its file"))
			}
			return printLink(cmd, o.config)
		},
	}
	configFlag(cmd, &o.config)
	o.register(cmd)
	return cmd
}

func newClusterWebCommand() *cobra.Command {
	var o webOptions
	cmd := &cobra.Command{
		Use:   "web [NODE]",
		Short: "Show the page of the cluster, of a node, or a recording",
		Long: `Serves a page at a port of the loopback address until Ctrl-C. The page shows the nodes
with their free CPUs, wholly free L3 domains and, if Berth pins no pod there, the reason.
It also shows the pods without a node, and what each pod waits for. A node opens its own
page. You need the rights to list and watch nodes, pods and nodetopologies, and leases in
berth-system.

With NODE it shows the page of that node only: who has which CPU and how busy it is, quota,
credit and throttling of each workload, events, and each value that Berth changed.
Requests go through the API server's port-forward to the agent's pod, with a token of
the account berth-viewer. You need the rights to list pods, to get and create
pods/portforward, and to create serviceaccounts/token of berth-viewer, all in berth-system.

--replay FILE plays a recording of berth status --watch -o json in the same page. It
needs no cluster.`,
		Example: "  berth web\n  berth web node-a\n  berth web --replay node.jsonl",
		Args:    nodeAtMost,
		RunE:    func(cmd *cobra.Command, args []string) error { return o.showCluster(cmd, args) },
	}
	o.register(cmd)
	return cmd
}

// register adds the flags that both programs have.
func (o *webOptions) register(cmd *cobra.Command) {
	o.kube.registerCluster(cmd)
	cmd.ValidArgsFunction = o.kube.completeNode
	cmd.Flags().StringVar(&o.replay, "replay", "", "show this recording instead")
	cmd.Flags().Uint16Var(&o.port, "port", 0, "the port to listen at for a recording or a cluster (default: a free one)")
}

// showCluster serves the page of a recording, of the node in args, or of the whole cluster.
func (o *webOptions) showCluster(cmd *cobra.Command, args []string) error {
	switch {
	case o.replay != "" && (len(args) > 0 || o.kube.chosen(cmd)):
		return usageError(errors.New("--replay: only allowed without a node or a cluster"))
	case o.replay != "":
		return showRecording(cmd, o.replay, o.port)
	}
	cfg, _, err := o.kube.config()
	if err != nil {
		return err
	}
	log := slog.New(slog.DiscardHandler)
	if len(args) > 0 {
		page, err := fleet.Open(cmd.Context(), cfg, args[0], log)
		if err != nil {
			return fmt.Errorf("no page of node %s: %w", args[0], err)
		}
		return o.serve(cmd, "node "+args[0], page.Serve)
	}
	cluster, err := fleet.Follow(cmd.Context(), cfg, log)
	if err != nil {
		return fmt.Errorf("no page of the cluster: %w", err)
	}
	defer cluster.Close()
	return o.serve(cmd, cfg.Host, cluster.Serve)
}

// serve shows a page until the user quits.
func (o *webOptions) serve(cmd *cobra.Command, what string, page func(context.Context, net.Listener) error) error {
	l, err := listenHere(cmd, o.port)
	if err != nil {
		return err
	}
	if err := writeLink(cmd, l.Addr().String()); err != nil {
		return errors.Join(err, l.Close())
	}
	printNote(cmd, "%s; Ctrl-C ends it", what)
	return page(cmd.Context(), l)
}

// listenHere listens at a port of the loopback address, at a free port for 0.
func listenHere(cmd *cobra.Command, port uint16) (net.Listener, error) {
	var listen net.ListenConfig
	l, err := listen.Listen(cmd.Context(), "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port))))
	if err != nil {
		return nil, fmt.Errorf("--port %d: %w", port, err)
	}
	return l, nil
}

// printLink prints where the agent serves the page, if it answers there.
func printLink(cmd *cobra.Command, config string) error {
	cfg, err := loadState(cmd, config)
	if err != nil {
		return err
	}
	if *cfg.Web.Token {
		return fmt.Errorf("no page here: %w: browsers bring no token to %s; sudo berth top shows the same, and kubectl berth web NODE brings a token", errToken, cfg.Listen)
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), agentAnswers)
	defer cancel()
	if _, err := window.Ask(ctx, cfg.Listen, "/"); err != nil {
		if errors.Is(err, window.ErrAnswer) {
			return fmt.Errorf("no page here: %w", err)
		}
		return fmt.Errorf("no page here: start berth agent, or show a recording with --replay: %w", err)
	}
	return writeLink(cmd, cfg.Listen)
}

// writeLink prints the link to a page.
func writeLink(cmd *cobra.Command, address string) error {
	return writeOutput(cmd.OutOrStdout(), "http://"+address+"/\n")
}

// showRecording serves a recording until the user quits.
func showRecording(cmd *cobra.Command, name string, port uint16) error {
	recording, err := orInterrupted(cmd.Context(), func() (*web.Recording, error) { return readRecording(name) })
	if err != nil {
		return err
	}
	l, err := listenHere(cmd, port)
	if err != nil {
		return err
	}
	if err := writeLink(cmd, l.Addr().String()); err != nil {
		return errors.Join(err, l.Close())
	}
	printNote(cmd, "%s of %s; Ctrl-C ends it", unit.Count(recording.Frames, "moment"), name)
	return recording.Serve(cmd.Context(), l, slog.New(slog.DiscardHandler))
}

func readRecording(name string) (*web.Recording, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, usageError(fmt.Errorf("--replay: %w", err))
	}
	defer file.Close()
	recording, err := web.ReadRecording(file)
	if err != nil {
		return nil, usageError(fmt.Errorf("--replay %s: %w", name, err))
	}
	return recording, nil
}

// watchStatus prints the agent's stream until the user quits.
func watchStatus(cmd *cobra.Command, format, config string) error {
	if format != "json" {
		return usageError(errors.New("--watch: only allowed with -o json; berth top is for people"))
	}
	cfg, err := loadState(cmd, config)
	if err != nil {
		return err
	}
	if err := requireAgent(cfg.StateDir); err != nil {
		return err
	}
	stream, err := window.Stream(cmd.Context(), cfg.StateDir, window.StreamPath)
	if err != nil {
		return err
	}
	defer stream.Close()
	_, err = io.Copy(raw(cmd.OutOrStdout()), stream)
	switch {
	case cmd.Context().Err() != nil:
		return nil // the user quit
	case err != nil:
		return fmt.Errorf("%w: %w", errAgentEnded, err)
	}
	return errAgentEnded
}
