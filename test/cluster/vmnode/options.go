package vmnode

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/berth-project/berth/test/kernel"
)

// ErrOptions means that Start was called with options that make no node.
var ErrOptions = errors.New("invalid options of a VM node")

// Programs are paths on the host of static amd64 binaries, or of ones that run in the
// guest's Debian.
type Programs struct {
	Containerd, Shim, Runc string // The runtime; Shim is containerd-shim-runc-v2.
	Kubelet                string // Without it the guest boots and is no node.
	KubeProxy              string // May be empty: then no program serves service addresses.
	Ctr                    string // Imports Options.Images.
	Berth                  string // May be empty; in the guest's PATH.
	CNI                    string // Directory with bridge and host-local.
}

// Options are what a node is started with.
type Options struct {
	// Name is the node's name: a DNS label.
	Name string
	// Dir is the node's directory, made if need be: disks, console, journal. One node at a
	// time may use it.
	Dir string
	// IP is the node's address, which API server and node know it by. If no device of the
	// host has it, the loopback device gets it until Remove.
	IP string
	// Machine is the computer; the zero value is [Machine].
	Machine kernel.Machine
	// Kubeconfig is the kubelet's: user system:node:NAME in group system:nodes, certificates
	// inside. A server on the host's loopback is reached as 10.0.2.2.
	Kubeconfig []byte
	// ProxyKubeconfig is kube-proxy's, in the same form; needed if Programs.KubeProxy is set.
	ProxyKubeconfig []byte
	// CA is the authority, in PEM, whose clients the kubelet's server knows.
	CA []byte
	// ServingCert and ServingKey are the pair of the kubelet's server, in PEM; without them
	// it signs one itself.
	ServingCert, ServingKey []byte
	// Programs are what the node runs.
	Programs Programs
	// Registry is the URL of the mirror for all registries, like "http://127.0.0.1:5000";
	// empty for none.
	Registry string
	// HostsTOML is what certs.d/_default/hosts.toml holds; empty for a plain mirror at Registry.
	HostsTOML []byte
	// Sandbox is the image of the pause container.
	Sandbox string
	// PodCIDR are the addresses of pods, ServiceCIDR those of services; the latter may be empty.
	PodCIDR, ServiceCIDR string
	// ClusterDNS is the name server of pods; may be empty.
	ClusterDNS string
	// Images are archives (docker or OCI) on the host that are imported at the first boot.
	Images []string
	// Kubelet changes and adds fields of the kubelet's configuration, at its top level.
	Kubelet map[string]any
	// Labels are put on the node by the kubelet.
	Labels map[string]string
	// Detached lets the machine outlive this process; [Open] finds it again.
	Detached bool
}

// Machine is the computer of a node unless the options name another: 16 CPUs on which
// socket, NUMA node, core and thread are four different things, with memory for a pod of
// 10 GiB on one node. The host gives only what is touched.
func Machine() kernel.Machine {
	return kernel.Machine{Name: "vm-node", Sockets: 2, Dies: 1, Cores: 4, Threads: 2, Nodes: 2, MiB: 24 << 10}
}

// complete fills defaults in and checks what nothing else checks in time.
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
