package local

import (
	"fmt"
	"os"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/berth-project/berth/test/cluster"
	"github.com/berth-project/berth/test/cluster/controlplane"
)

// NodeCredentials is the information that another node needs to join the cluster.
type NodeCredentials struct {
	Name            string       // The node's name.
	IP              string       // A free address of this machine for the node.
	Server          string       // The API server's URL.
	CA              []byte       // PEM: the authority of the servers and of the kubelet's clients.
	Config          *rest.Config // The kubelet's identity: user system:node:NAME of group system:nodes.
	Kubeconfig      []byte       // Config as a file.
	ProxyKubeconfig []byte       // For kube-proxy.
	ServingCert     []byte       // PEM: for the kubelet's server, with Name and IP.
	ServingKey      []byte       // PEM.
	Registry        string       // URL of the mirror of all registries.
	HostsTOML       []byte       // certs.d/_default/hosts.toml for a containerd that uses the mirror.
	PodCIDR         string       // For the node's bridge.
	ServiceCIDR     string
	Programs        NodePrograms
}

// NodePrograms are the paths of static programs on this machine.
type NodePrograms struct {
	Kubelet, KubeProxy, Containerd, Shim, Ctr, Runc, Berth string
	CNI                                                    string // A directory.
}

// Join makes new credentials for another node.
func (c *Cluster) Join(name string) (NodeCredentials, error) {
	authority, err := readAuthority()
	if err != nil {
		return NodeCredentials{}, err
	}
	programs, err := cluster.Find()
	if err != nil {
		return NodeCredentials{}, err
	}
	n := NodeCredentials{
		Name: name, IP: SecondAddress, Server: c.config.Host, CA: c.config.CAData,
		Registry: "http://" + Registry, HostsTOML: HostsTOML(),
		PodCIDR: "198.18.129.0/24", ServiceCIDR: ServiceCIDR,
		Programs: NodePrograms{
			Kubelet: programs.Kubelet, KubeProxy: programs.KubeProxy, Containerd: programs.Containerd,
			Shim: programs.Shim, Ctr: programs.Ctr, Runc: programs.Runc, Berth: programs.Berth, CNI: programs.CNI,
		},
	}
	if n.Config, n.Kubeconfig, err = c.identity(authority, "system:node:"+name, "system:nodes"); err != nil {
		return NodeCredentials{}, err
	}
	if _, n.ProxyKubeconfig, err = c.identity(authority, "system:kube-proxy"); err != nil {
		return NodeCredentials{}, err
	}
	n.ServingCert, n.ServingKey, err = authority.Serving("system:node:"+name, name, n.IP)
	return n, err
}

// As returns a client configuration of a user in groups, also as a kubeconfig.
func (c *Cluster) As(user string, groups ...string) (*rest.Config, []byte, error) {
	authority, err := readAuthority()
	if err != nil {
		return nil, nil, err
	}
	return c.identity(authority, user, groups...)
}

func (c *Cluster) identity(a *controlplane.Authority, user string, groups ...string) (*rest.Config, []byte, error) {
	cert, key, err := a.Client(user, groups...)
	if err != nil {
		return nil, nil, err
	}
	config := rest.AnonymousClientConfig(c.config)
	config.QPS, config.Burst = c.config.QPS, c.config.Burst
	config.CertData, config.KeyData = cert, key
	text, err := controlplane.EncodeKubeconfig(config)
	return config, text, err
}

// Cluster is the running cluster. Several goroutines and processes may call its methods.
type Cluster struct{ config *rest.Config }

// Running returns the cluster of this machine if it is ready, and otherwise ErrNotUp.
func Running() (*Cluster, error) {
	if !supervised() || !exists(file("ready")) {
		return nil, ErrNotUp
	}
	config, err := clientcmd.BuildConfigFromFlags("", Kubeconfig())
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFailed, err)
	}
	config.QPS, config.Burst = 1000, 1000
	return &Cluster{config: config}, nil
}

// Config returns a new client configuration of an administrator.
func (c *Cluster) Config() *rest.Config { return rest.CopyConfig(c.config) }

// Dir returns the directory for the files of an additional node. Down removes it.
func (c *Cluster) Dir(node string) string { return file("nodes", node) }

// writeAuthority stores the authority for Join, and writes the administrator's kubeconfig.
func writeAuthority(plane *controlplane.ControlPlane) error {
	text, err := plane.Authority().Encode()
	if err != nil {
		return err
	}
	if err := os.WriteFile(file("config", "authority.pem"), text, 0o600); err != nil {
		return err
	}
	if err := controlplane.WriteKubeconfig(plane.Config(), Kubeconfig()); err != nil {
		return err
	}
	return giveAway(Kubeconfig())
}

func readAuthority() (*controlplane.Authority, error) {
	text, err := os.ReadFile(file("config", "authority.pem"))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotUp, err)
	}
	return controlplane.DecodeAuthority(text)
}
