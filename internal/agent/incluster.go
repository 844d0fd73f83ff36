package agent

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/berth-project/berth/internal/node/cluster"
	"github.com/berth-project/berth/internal/node/containers"
	"github.com/berth-project/berth/internal/node/kubelet"
	"github.com/berth-project/berth/internal/node/nri"
	"github.com/berth-project/berth/internal/node/statedir"
)

// connections are the connections of an agent on a Kubernetes node.
type connections struct {
	client  *cluster.Client
	memory  *statedir.Memory // of the cluster's snapshot
	kubelet kubelet.Source
	runtime *containers.Runtime
}

// joinCluster connects the controller to Kubernetes, if its file says so.
func (c *controller) joinCluster() error {
	cfg := c.opts.Config.Cluster
	if !*cfg.Enabled {
		return nil
	}
	identity, err := statedir.Identity(c.opts.Config.StateDir)
	if err != nil {
		return err
	}
	connected, err := findCluster(c.opts, identity)
	if err != nil {
		return fmt.Errorf("%s: %w", c.opts.ConfigFile, err)
	}
	c.join(connected)
	connected.runtime, err = containers.New(containers.Options{
		NRISocket: cfg.NRISocket, Handler: c, MustAnswer: mustAnswer, Waits: c.counts.work.Waits(),
		Endpoint: cfg.RuntimeEndpoint, Listed: c.takeListing, Groups: c.host, Log: c.opts.Log,
	})
	return err
}

// join adds the connections of the cluster to the controller.
func (c *controller) join(connected *connections) {
	c.cluster.connected = connected
	connected.kubelet.OneNode = func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		t := c.hardware.Machine.Topology
		return t != nil && len(t.Nodes) < 2
	}
	each(c, func(j joiner) { j.Join(connected.client) })
	passOwner(c)
}

// passOwner tells the inventory which CPU sets and memory nodes the kubelet manages.
func passOwner(c *controller) {
	c.inventory.Kubelet(c.hardware.Kubelet.Obstacle(), c.hardware.Kubelet.MemsOwner())
}

// findCluster makes the connections, and sends no request yet.
func findCluster(opts Options, identity string) (*connections, error) {
	cfg := opts.Config.Cluster
	config, err := cluster.Connect(cfg.Kubeconfig, "berth-agent/"+opts.Version)
	if err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	node, err := cluster.NodeName(cfg.NodeName, config)
	if err != nil {
		return nil, fmt.Errorf("cluster.nodeName is empty: %w", err)
	}
	s := &connections{
		memory:  statedir.NewMemory(opts.Config.StateDir, opts.BootID),
		kubelet: kubelet.Source{Dir: cfg.KubeletDir},
	}
	if s.kubelet.Client, err = kubelet.Find(cfg, node, opts.HostIP, config.BearerTokenFile); err != nil {
		opts.Log.Warn("the kubelet cannot be asked: its files have to do", "error", err)
	}
	options := cluster.Options{Config: config, Node: node, Identity: identity, Log: opts.Log}
	if options.Memory, err = s.memory.Recall(); err != nil {
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

// run runs all connections until ctx ends.
func (s *connections) run(ctx context.Context, c *controller) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.client.Run(ctx) })
	group.Go(func() error { return s.runtime.Run(ctx) })
	group.Go(func() error { return s.kubelet.Watch(ctx, c.takeKubelet) })
	return group.Wait() //nolint:wrapcheck // each names what it is
}

// takeListing handles a list of all containers of the runtime at one moment, while it does not report over NRI.
func (c *controller) takeListing(e nri.Event, problems []error, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, problem := range problems {
		c.counts.fail("CRI", problem)
	}
	if err != nil {
		c.counts.fail("CRI", err)
		return
	}
	recallGroups(&e, c.journal)
	if _, err := c.assignment.Handle(e, true); err != nil {
		c.counts.fail("CRI", err)
	}
	c.cluster.stale = true
	c.wake()
}

// takeKubelet handles the kubelet's configuration, or why it is unknown. It returns an error if only another container
// of the agent will see it.
func (c *controller) takeKubelet(r kubelet.Reading) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	changed, err := c.hardware.TakeKubelet(r, c.opts.Clock())
	if changed {
		passOwner(c)
		c.cluster.stale = true
		c.wake()
	}
	return err
}
