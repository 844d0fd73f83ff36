package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/cgroup"
	"github.com/berth-project/berth/internal/cluster"
	"github.com/berth-project/berth/internal/cri"
	"github.com/berth-project/berth/internal/inventory"
	"github.com/berth-project/berth/internal/kubelet"
	"github.com/berth-project/berth/internal/nri"
	"github.com/berth-project/berth/internal/statedir"
)

// surroundings are what the agent of a node of Kubernetes talks to.
type surroundings struct {
	config  v1alpha1.ClusterConfig
	client  *cluster.Client
	plugin  *nri.Plugin          // nil without NRI
	waits   prometheus.Histogram // of the runtime, for answers
	kubelet kubelet.Source
	cri     *cri.Client // nil where it is never asked
}

// joinCluster makes the controller that of a node of Kubernetes, if its file says so.
func (c *controller) joinCluster() error {
	if !*c.opts.Config.Cluster.Enabled {
		return nil
	}
	identity, err := statedir.Identity(c.opts.Config.StateDir)
	if err != nil {
		return err
	}
	around, err := findCluster(c.opts, identity)
	if err != nil {
		return fmt.Errorf("%s: %w", c.opts.ConfigFile, err)
	}
	c.around = around
	c.inventory.Kubelet(inventory.Obstacle(c.machine.kubelet.Obstacle()), c.machine.kubelet.MemsOwner())
	return errors.Join(around.attachRuntime(c, c.host), around.askRuntime(c.host))
}

// findCluster makes the connections, which send no request yet.
func findCluster(opts Options, identity string) (*surroundings, error) {
	s := &surroundings{config: opts.Config.Cluster, kubelet: kubelet.Source{Dir: opts.Config.Cluster.KubeletDir}}
	config, err := cluster.Connect(s.config.Kubeconfig, "berth-agent/"+opts.Version)
	if err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	node, err := nodeName(s.config.NodeName, func() (string, error) { return cluster.NodeOfToken(config) }, hostName)
	if err != nil {
		return nil, err
	}
	if s.kubelet.Client, err = kubelet.Find(s.config, node, opts.HostIP, config.BearerTokenFile); err != nil {
		opts.Log.Warn("the kubelet cannot be asked: its files have to do", "error", err)
	}
	options := cluster.Options{Config: config, Node: node, Identity: identity, Log: opts.Log}
	if options.Memory, err = statedir.LoadMemory(opts.Config.StateDir, opts.BootID); err != nil {
		opts.Log.Warn("memory ignored", "error", err)
	}
	if s.kubelet.Client != nil {
		options.Kubelet = s.kubelet.Client
	}
	s.client, err = cluster.New(options)
	if err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	return s, nil
}

// nodeName is the name of the Node object: the given one, or the first that others
// know.
func nodeName(given string, others ...func() (string, error)) (string, error) {
	for _, other := range others {
		if given != "" {
			return given, nil
		}
		var err error
		if given, err = other(); err != nil {
			return "", fmt.Errorf("cluster.nodeName is empty: %w", err)
		}
	}
	return given, nil
}

// hostName is what the kubelet calls its Node unless it is configured otherwise.
func hostName() (string, error) {
	host, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("name of the host: %w", err)
	}
	return strings.ToLower(host), nil
}

// attachRuntime makes the plugin of the container runtime.
func (s *surroundings) attachRuntime(c *controller, host *cgroup.Host) error {
	if s.config.NRISocket == v1alpha1.NoNRI {
		return nil
	}
	s.waits = newNRIWaits()
	plugin, err := nri.New(nri.Options{
		Socket: s.config.NRISocket, Handler: c, Groups: host, Log: c.opts.Log, MustAnswer: asksForCPUs, Waits: s.waits,
	})
	if err != nil {
		return fmt.Errorf("NRI: %w", err)
	}
	s.plugin = plugin
	return nil
}

// run keeps all connections until ctx ends.
func (s *surroundings) run(ctx context.Context, c *controller) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.client.Run(ctx) })
	if s.plugin != nil {
		group.Go(func() error { return s.plugin.Run(ctx) })
	}
	if s.cri != nil {
		group.Go(func() error { return s.follow(ctx, c) })
	}
	group.Go(func() error { return s.kubelet.Watch(ctx, c.takeKubelet) })
	return group.Wait() //nolint:wrapcheck // each names what it is
}
