package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/cgroup"
	"github.com/berth-project/berth/internal/cluster"
	"github.com/berth-project/berth/internal/cri"
	"github.com/berth-project/berth/internal/kubelet"
	"github.com/berth-project/berth/internal/nri"
	"github.com/berth-project/berth/internal/statedir"
)

// kubeletEvery is how often the kubelet's configuration is read again: it changes
// only when the kubelet is started anew.
const kubeletEvery = 10 * time.Second

// kubeletPort is where a kubelet serves unless it is configured otherwise.
const kubeletPort = "10250"

// surroundings are what the agent of a node of Kubernetes talks to.
type surroundings struct {
	config  v1alpha1.ClusterConfig
	client  *cluster.Client
	plugin  *nri.Plugin          // nil without NRI
	waits   prometheus.Histogram // of the runtime, for answers
	kubelet *kubelet.Client      // nil where there is no way to ask it
	cri     *cri.Client          // nil where it is never asked
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
	c.inventory.Kubelet(c.machine.obstacle(), c.machine.memsOwner())
	return errors.Join(around.attachRuntime(c, c.host), around.askRuntime(c.host))
}

// findCluster makes the connections, which send no request yet.
func findCluster(opts Options, identity string) (*surroundings, error) {
	s := &surroundings{config: opts.Config.Cluster}
	config, err := cluster.Connect(s.config.Kubeconfig, "berth-agent/"+opts.Version)
	if err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	node, err := nodeName(s.config.NodeName, func() (string, error) { return cluster.NodeOfToken(config) }, hostName)
	if err != nil {
		return nil, err
	}
	if s.kubelet, err = findKubelet(s.config, node, opts.HostIP, config.BearerTokenFile); err != nil {
		opts.Log.Warn("the kubelet cannot be asked: its files have to do", "error", err)
	}
	options := cluster.Options{Config: config, Node: node, Identity: identity, Log: opts.Log}
	if options.Memory, err = statedir.LoadMemory(opts.Config.StateDir, opts.BootID); err != nil {
		opts.Log.Warn("memory ignored", "error", err)
	}
	if s.kubelet != nil {
		options.Kubelet = s.kubelet
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

// findKubelet makes a client of the kubelet of this host. It needs a token, as a
// service account has, and the kubelet's own certificate on this host's disk, or the
// authority that signed it.
func findKubelet(c v1alpha1.ClusterConfig, node, hostIP, tokenFile string) (*kubelet.Client, error) {
	address := net.JoinHostPort(cmp.Or(hostIP, "127.0.0.1"), kubeletPort)
	if c.KubeletURL != "" {
		u, err := url.Parse(c.KubeletURL)
		if err != nil {
			return nil, fmt.Errorf("cluster.kubeletURL: %w", err)
		}
		address = u.Host
	}
	options := kubelet.Options{Address: address, TokenFile: tokenFile}
	if c.KubeletCA != "" {
		options.CAFile, options.ServerNames = c.KubeletCA, kubeletNames(node, hostIP)
	} else {
		options.CertFiles = kubeletCertificates(c.KubeletDir)
	}
	client, err := kubelet.New(options)
	if err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	return client, nil
}

// kubeletNames are those of which a signed certificate has to be for one: the loopback
// address is every node's.
func kubeletNames(node, hostIP string) []string {
	names := []string{node}
	if hostIP != "" {
		names = append(names, hostIP)
	}
	return names
}

// kubeletCertificates are the files of the kubelet's serving certificate: the one that
// the cluster's authority signed, which may come at any time, and the one the kubelet
// made itself.
func kubeletCertificates(dir string) []string {
	return []string{filepath.Join(dir, "pki", "kubelet-server-current.pem"), filepath.Join(dir, "pki", "kubelet.crt")}
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
	group.Go(func() error { return s.watchKubelet(ctx, c) })
	return group.Wait() //nolint:wrapcheck // each names what it is
}

// watchKubelet reads who sets CPU sets by the kubelet's configuration, until ctx
// ends, or until the kubelet replaced a file that this container would never see.
func (s *surroundings) watchKubelet(ctx context.Context, c *controller) error {
	ticker := time.NewTicker(kubeletEvery)
	defer ticker.Stop()
	for {
		config, whole, err := s.readKubelet(ctx)
		if errors.Is(err, kubelet.ErrReplaced) && !c.kubeletSetsCPUs() {
			return fmt.Errorf("the agent has to start anew: %w", err)
		}
		c.takeKubelet(config, whole, err)
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// readKubelet asks the kubelet, and reads its files where it does not answer. Its
// state alone, without its configuration, is not the whole.
func (s *surroundings) readKubelet(ctx context.Context) (config kubelet.Config, whole bool, err error) {
	var asked error
	if s.kubelet != nil {
		config, err := s.kubelet.Configz(ctx)
		if err == nil {
			return config, true, nil
		}
		asked = err
	}
	config, err = kubelet.ReadConfig(filepath.Join(s.config.KubeletDir, "config.yaml"))
	if errors.Is(err, kubelet.ErrReplaced) {
		return kubelet.Config{}, false, errors.Join(asked, err)
	}
	if err != nil {
		config = kubelet.Config{}
	}
	state, serr := kubelet.ReadState(s.config.KubeletDir)
	if serr != nil {
		return kubelet.Config{}, false, errors.Join(asked, err, serr)
	}
	config.CPUManagerPolicy = state.Policy // what it runs with; the file may be newer
	config.MemoryManagerPolicy = cmp.Or(state.MemoryPolicy, config.MemoryManagerPolicy)
	return config, err == nil, nil
}
