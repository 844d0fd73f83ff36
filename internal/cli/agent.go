package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/agent"
	"github.com/berth-project/berth/internal/agent/window"
	"github.com/berth-project/berth/internal/intent/manifest"
	"github.com/berth-project/berth/internal/linux/kernel"
)

// configFlag adds --config, which several commands share.
func configFlag(cmd *cobra.Command, path *string) {
	cmd.Flags().StringVar(path, "config", manifest.DefaultConfigPath, "the agent's file")
}

// loadState reads the agent's file for a command that only needs its state directory. Without --config and without a
// file it uses the defaults, so that changes can be found after the file was deleted.
func loadState(cmd *cobra.Command, path string) (v1alpha1.AgentConfig, error) {
	cfg, isThere, err := findState(cmd, path)
	if !isThere {
		sayElsewhere(cmd, path, cfg.StateDir)
	}
	return cfg, err
}

// sayElsewhere prints where a command reads state without the agent's file.
func sayElsewhere(cmd *cobra.Command, path, stateDir string) {
	printNote(cmd, "no %s, looking in %s", path, stateDir)
}

// whereChanged returns the state directory for a command that restores values. It tolerates an error in the agent's
// file as long as the file names the directory, which the command then prints.
func whereChanged(cmd *cobra.Command, path string) (stateDir string, isThere bool, err error) {
	cfg, isThere, err := findState(cmd, path)
	if !errors.Is(err, v1alpha1.ErrInvalid) || errors.Is(err, fs.ErrNotExist) {
		return cfg.StateDir, isThere, err
	}
	stateDir, known := manifest.StateDir(path)
	if !known {
		return "", true, fmt.Errorf("%w; the file has no line stateDir that says where the state is all the same", err)
	}
	printNote(cmd, "%v", err)
	printNote(cmd, "looking in %s all the same", stateDir)
	return stateDir, true, nil
}

// findState is loadState without output.
func findState(cmd *cobra.Command, path string) (cfg v1alpha1.AgentConfig, isThere bool, err error) {
	cfg, err = manifest.LoadConfig(path)
	if errors.Is(err, fs.ErrNotExist) && !cmd.Flags().Changed("config") {
		cfg = v1alpha1.AgentConfig{}
		v1alpha1.SetAgentConfigDefaults(&cfg)
		return cfg, false, nil
	}
	return cfg, true, err
}

func newAgentCommand(g *globals) *cobra.Command {
	var f agentFlags
	var printConfig, checkHealth bool
	var stateDir string
	cmd := &cobra.Command{
		Use:   "agent",
		Short: "Run the node agent until a signal stops it",
		Long: `Runs the node agent in the foreground. The agent reads workloads from workloadDir,
notices changed files (at once with SIGHUP) and serves /metrics, /healthz, /readyz
and the page that berth web links to. On SIGTERM or Ctrl-C the agent puts back quotas
and bursts that are above the limits.`,
		Example: `  berth agent --print-config | sudo tee /etc/berth/agent.yaml
  berth agent --config /etc/berth/agent.yaml`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if printConfig {
				return g.printConfig(cmd.OutOrStdout())
			}
			if g.Output != "" {
				return usageError(errors.New("--output: only allowed with --print-config"))
			}
			if stateDir != "" && !checkHealth {
				return usageError(errors.New("--state-dir: only allowed with --check-health"))
			}
			if checkHealth {
				return checkAgent(cmd, f.config, stateDir)
			}
			return runAgent(cmd, g, f)
		},
	}
	configFlag(cmd, &f.config)
	cmd.Flags().StringVar(&f.hostIP, "host-ip", "", "in a cluster: the address of this node, where its kubelet listens")
	cmd.Flags().StringVar(&f.node, "node-name", "", "in a cluster: the name of the Node object, instead of cluster.nodeName of the file")
	cmd.Flags().BoolVar(&f.restore, "restore", false, "put everything back on stop, and fail (exit 4) where another program changed a value")
	cmd.Flags().BoolVar(&printConfig, "print-config", false, "print the agent's file with all defaults and comments, and exit")
	cmd.Flags().BoolVar(&checkHealth, "check-health", false, "ask the agent that runs with this file whether its loop turns, and exit: 0 if so, 1 if not")
	cmd.Flags().StringVar(&stateDir, "state-dir", "", "with --check-health: the state directory of that agent, instead of reading the file")
	return cmd
}

// printConfig prints the agent's file with its comments, or as JSON without them.
func (g *globals) printConfig(w io.Writer) error {
	format, err := g.format("yaml", "json")
	if err != nil {
		return err
	}
	var parts []string
	for _, info := range g.capabilities {
		parts = append(parts, info.Config)
	}
	text := manifest.PrintConfig(parts...)
	if format == "yaml" {
		return writeText(w, text)
	}
	document, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		return fmt.Errorf("encode output: %w", err)
	}
	return encode(w, format, json.RawMessage(document))
}

// healthLimit is how long the agent may take to report its health.
const healthLimit = 5 * time.Second

// checkAgent asks the agent over its socket, because another program may have its address. With a state directory it
// ignores the file. A running agent continues with the last good file, and an error in a newer file must not end it.
func checkAgent(cmd *cobra.Command, config, stateDir string) error {
	if stateDir == "" {
		cfg, err := loadState(cmd, config)
		if err != nil {
			return err
		}
		stateDir = cfg.StateDir
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), healthLimit)
	defer cancel()
	err := window.CheckHealth(ctx, stateDir)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) { // no socket, or the socket of an agent that ended
		return errNoAgent
	}
	return err
}

// agentFlags are the flags of berth agent.
type agentFlags struct {
	config, node, hostIP string
	restore              bool
}

func runAgent(cmd *cobra.Command, g *globals, f agentFlags) error {
	cfg, err := manifest.LoadConfig(f.config)
	if err != nil {
		if stateDir, known := manifest.StateDir(f.config); known {
			settle(cmd, g, stateDir)
		}
		return err
	}
	if f.node != "" {
		cfg.Cluster.NodeName = f.node
	}
	root, err := g.openRoot()
	if err != nil {
		return err
	}
	defer root.Close()
	runtime.GOMAXPROCS(threads(*cfg.Cluster.Enabled))
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	keep, err := g.keep(cmd, f.config)
	if err != nil {
		return err
	}
	return agent.Run(cmd.Context(), agent.Options{
		KeepProfile:   keep,
		ConfigFile:    f.config,
		Config:        cfg,
		Version:       cmd.Root().Version,
		Root:          root,
		Clock:         bootClock(),
		Now:           time.Now,
		Log:           slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil)),
		Reload:        hangups,
		RestoreOnStop: f.restore,
		HostIP:        f.hostIP,
	})
}

// bootClock counts from boot, so that ledgers survive a restart of the agent. It reads the time without a system call.
func bootClock() func() time.Duration {
	base, start := kernel.Monotonic(), time.Now()
	return func() time.Duration { return base + time.Since(start) }
}

// threads returns how many CPUs the agent uses at once. One goroutine does the work; a second thread would only wake up
// for nothing. In a cluster a second thread decodes answers of the API server while the container runtime waits for the
// agent. With more threads, the agent of a large node would wake them one after the other.
func threads(cluster bool) int {
	if cluster {
		return min(2, runtime.GOMAXPROCS(0))
	}
	return 1
}
