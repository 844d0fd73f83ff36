package vmnode

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/berth-project/berth/test/kernel"
)

// ErrOptions reports invalid options of Start.
var ErrOptions = errors.New("invalid options of a VM node")

// Programs are paths on the host of amd64 binaries that are static or run in the guest's Debian.
type Programs struct {
	Containerd, Shim, Runc string // The runtime; Shim is containerd-shim-runc-v2.
	Kubelet                string // Without it the guest boots but is no node.
	KubeProxy              string // May be empty: then no program serves service addresses.
	Ctr                    string // Imports Options.Images.
	Berth                  string // May be empty; in the guest's PATH.
	CNI                    string // Directory with bridge and host-local.
}

// Options are the options of Start.
type Options struct {
	// Name is the node's name: a DNS label.
	Name string
	// Dir is the node's directory, created if necessary: disks, console, journal. Only one node at a time may use it.
	Dir string
	// IP is the node's address for the API server and for itself. If no device of the host has it, the loopback device
	// gets it until Remove.
	IP string
	// Machine is the hardware; the zero value means [Machine].
	Machine kernel.Machine
	// Arguments are arguments of the kernel beyond those of every node, such as "nohz_full=1".
	Arguments []string
	// Kubeconfig is the kubelet's kubeconfig: user system:node:NAME in group system:nodes, with certificates inside.
	// The guest reaches a server on the host's loopback as 10.0.2.2.
	Kubeconfig []byte
	// ProxyKubeconfig is kube-proxy's kubeconfig, in the same form; needed if Programs.KubeProxy is set.
	ProxyKubeconfig []byte
	// CA is the authority, in PEM, of the clients that the kubelet's server accepts.
	CA []byte
	// ServingCert and ServingKey are the pair of the kubelet's server, in PEM; without them the kubelet signs its own.
	ServingCert, ServingKey []byte
	// Programs are the programs that the node runs.
	Programs Programs
	// Registry is the URL of the mirror for all registries, such as "http://127.0.0.1:5000"; empty for none.
	Registry string
	// HostsTOML is the content of certs.d/_default/hosts.toml; empty for a plain mirror at Registry.
	HostsTOML []byte
	// Sandbox is the image of the pause container.
	Sandbox string
	// PodCIDR is the address range of pods, ServiceCIDR that of services, which may be empty.
	PodCIDR, ServiceCIDR string
	// ClusterDNS is the name server of pods; may be empty.
	ClusterDNS string
	// Images are archives (docker or OCI) on the host that the guest imports at its first boot.
	Images []string
	// Files are further files on the host. The guest has each in /opt/berth/files, by the last part of its path.
	Files []string
	// Kubelet changes and adds fields of the kubelet's configuration, at its top level.
	Kubelet map[string]any
	// Labels are labels that the kubelet sets on the node.
	Labels map[string]string
	// Detached lets the machine outlive this process; [Open] finds it later.
	Detached bool
}

// Machine returns the default hardware of a node: 16 CPUs on which socket, NUMA node, core and thread are four
// different things, with memory for a pod of 10 GiB on one node. The host provides only the memory that the guest
// touches.
func Machine() kernel.Machine {
	return kernel.Machine{Name: "vm-node", Sockets: 2, Dies: 1, Cores: 4, Threads: 2, Nodes: 2, MiB: 24 << 10}
}

// complete sets defaults and checks options that nothing else checks in time.
func (o Options) complete() (Options, error) {
	if o.Machine == (kernel.Machine{}) {
		o.Machine = Machine()
	}
	if o.Sandbox == "" {
		o.Sandbox = "registry.k8s.io/pause:3.10"
	}
	if o.Name == "" || o.Dir == "" {
		return o, fmt.Errorf("%w: no name or no directory", ErrOptions)
	}
	if ip, err := netip.ParseAddr(o.IP); err != nil || !ip.Is4() || ip.IsLoopback() {
		return o, fmt.Errorf("%w: address %q; a kubelet takes no loopback address", ErrOptions, o.IP)
	}
	if o.Programs.Kubelet == "" {
		return o, nil
	}
	if len(o.Kubeconfig) == 0 || len(o.CA) == 0 {
		return o, fmt.Errorf("%w: a kubelet without kubeconfig or CA", ErrOptions)
	}
	if _, err := netip.ParsePrefix(o.PodCIDR); err != nil {
		return o, fmt.Errorf("%w: pod addresses: %w", ErrOptions, err)
	}
	return o, nil
}
