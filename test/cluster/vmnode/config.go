package vmnode

import (
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"
)

const (
	// hostLoopback is the guest's address for the host's loopback, and its only neighbor.
	hostLoopback = "10.0.2.2"
	// guestAddress is the guest's address in QEMU's user network.
	guestAddress = "10.0.2.15"
	// etc is the configuration directory of the guest's services: a copy from the second disk, which a test may change.
	etc = "/etc/berth-node"
	// pki is the directory where a kubelet stores its serving certificate, and where its clients read it.
	pki = "/var/lib/kubelet/pki"
)

// files returns the files of the second disk other than programs and images, by path.
func (o Options) files(token string) (map[string][]byte, error) {
	files := map[string][]byte{
		"etc/token":           []byte(token),
		"etc/containerd.toml": []byte(o.containerdConfig()),
		"import":              []byte(importScript),
	}
	reach := []string{}
	add := func(name string, content []byte) {
		if len(content) > 0 {
			files["etc/"+name] = content
		}
	}
	if o.Registry != "" {
		address, hosts, err := o.mirror()
		if err != nil {
			return nil, err
		}
		reach = append(reach, address)
		add("certs.d/_default/hosts.toml", hosts)
	}
	for name, kubeconfig := range map[string][]byte{"kubelet.kubeconfig": o.Kubeconfig, "kube-proxy.kubeconfig": o.ProxyKubeconfig} {
		translated, servers, err := translate(kubeconfig)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		reach = append(reach, servers...)
		add(name, translated)
	}
	add("ca.crt", o.CA)
	add("kubelet.crt", o.ServingCert)
	add("kubelet.key", o.ServingKey)
	add("kubelet.env", []byte(o.kubeletFlags()))
	add("kube-proxy.env", []byte(o.proxyFlags()))
	config, err := o.kubeletConfig()
	if err != nil {
		return nil, err
	}
	add("kubelet.yaml", config)
	network, err := o.network()
	if err != nil {
		return nil, err
	}
	add("cni/10-berth.conflist", network)
	files["setup"] = []byte(o.setup(reach))
	return files, nil
}

// importScript imports the images once in the lifetime of the root disk.
const importScript = `set -e
[ -e /var/lib/containerd/berth-imported ] && exit 0
for image in /opt/berth/images/*; do
	[ -e "$image" ] && /opt/berth/bin/ctr -n k8s.io images import --local "$image"
done
touch /var/lib/containerd/berth-imported
`

// masquerade gives connections from pods to the outside the node's address.
const masquerade = `nft -f - <<'END'
table ip berth {
	chain leaving {
		type nat hook postrouting priority srcnat;
		ip saddr %[1]s ip daddr != { %[1]s, 224.0.0.0/4 } masquerade
	}
}
END`

// setup is the script that the guest runs before its services.
func (o Options) setup(reach []string) string {
	lines := []string{
		"set -e",
		"mkdir -p " + etc + " /var/lib/kubelet",
		"cp -r --update=none /opt/berth/etc/. " + etc,
		"ip link set lo up",
		"ip address replace " + o.IP + "/32 dev lo",
	}
	if len(o.ServingCert) > 0 {
		lines = append(lines, "mkdir -p "+pki, "cp "+etc+"/kubelet.crt "+etc+"/kubelet.key "+pki)
	}
	if o.ServiceCIDR != "" {
		reach = append(reach, o.ServiceCIDR)
	}
	slices.Sort(reach)
	if o.PodCIDR != "" {
		lines = append(lines, fmt.Sprintf(masquerade, o.PodCIDR))
	}
	for _, to := range slices.Compact(reach) {
		if !strings.HasPrefix(to, "10.0.2.") {
			lines = append(lines, "ip route replace "+to+" via "+hostLoopback)
		}
	}
	return strings.Join(lines, "\n") + "\n"
}

// mirror returns the guest's address of the registry, and the file that makes it the mirror of all registries.
func (o Options) mirror() (address string, hosts []byte, err error) {
	registry, err := url.Parse(o.Registry)
	if err != nil {
		return "", nil, fmt.Errorf("%w: registry: %w", ErrOptions, err)
	}
	registry.Host, address = seen(registry.Host)
	if hosts = o.HostsTOML; len(hosts) == 0 {
		hosts = fmt.Appendf(nil, "[host.%q]\n  capabilities = [\"pull\", \"resolve\"]\n", registry.String())
	}
	return address, hosts, nil
}

// seen translates host:port to the guest's view; address is the result without the port.
func seen(hostPort string) (translated, address string) {
	host, port, err := net.SplitHostPort(hostPort)
	if err != nil {
		host, port = hostPort, "443"
	}
	if ip, err := netip.ParseAddr(host); host == "localhost" || err == nil && ip.IsLoopback() {
		host = hostLoopback
	}
	return net.JoinHostPort(host, port), host
}

// translate converts a kubeconfig of the host into one for the guest, and returns the addresses of its servers. A
// server on the host's loopback keeps the name in its certificate.
func translate(kubeconfig []byte) (translated []byte, servers []string, err error) {
	if len(kubeconfig) == 0 {
		return nil, nil, nil
	}
	config, err := clientcmd.Load(kubeconfig)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrOptions, err)
	}
	for _, cluster := range config.Clusters {
		server, err := url.Parse(cluster.Server)
		if err != nil {
			return nil, nil, fmt.Errorf("%w: server: %w", ErrOptions, err)
		}
		name := server.Hostname()
		host, address := seen(server.Host)
		server.Host = host
		if address != name && cluster.TLSServerName == "" {
			cluster.TLSServerName = name
		}
		cluster.Server = server.String()
		servers = append(servers, address)
	}
	translated, err = clientcmd.Write(*config)
	return translated, servers, err
}

func (o Options) containerdConfig() string {
	return fmt.Sprintf(`version = 3
# Of other file systems; each looks for its own at the start.
disabled_plugins = [
  "io.containerd.snapshotter.v1.blockfile", "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs",
  "io.containerd.snapshotter.v1.erofs", "io.containerd.differ.v1.erofs",
  "io.containerd.tracing.processor.v1.otlp", "io.containerd.internal.v1.tracing",
]
[plugins.'io.containerd.cri.v1.images'.pinned_images]
  sandbox = %q
[plugins.'io.containerd.cri.v1.images'.registry]
  config_path = %q
[plugins.'io.containerd.cri.v1.runtime'.cni]
  bin_dirs = ["/opt/berth/cni"]
  use_internal_loopback = true
  conf_dir = %q
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
  SystemdCgroup = true
`, o.Sandbox, etc+"/certs.d", etc+"/cni")
}

// kubeletConfig returns the kubelet's configuration file; fields of the options take precedence.
func (o Options) kubeletConfig() ([]byte, error) {
	config := map[string]any{
		"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
		"authentication": map[string]any{
			"anonymous": map[string]any{"enabled": false},
			"webhook":   map[string]any{"enabled": true},
			"x509":      map[string]any{"clientCAFile": etc + "/ca.crt"},
		},
		"authorization":            map[string]any{"mode": "Webhook"},
		"cgroupDriver":             "systemd",
		"containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
		"resolvConf":               "/etc/resolv.conf",
		// The disk grows with its content; the host's disk fills up first.
		"evictionHard": map[string]any{"memory.available": "100Mi"},
		// Emulated programs answer slowly.
		"runtimeRequestTimeout": "5m",
	}
	if len(o.ServingCert) > 0 {
		config["tlsCertFile"], config["tlsPrivateKeyFile"] = pki+"/kubelet.crt", pki+"/kubelet.key"
	}
	if o.ClusterDNS != "" {
		config["clusterDNS"], config["clusterDomain"] = []string{o.ClusterDNS}, "cluster.local"
	}
	maps.Copy(config, o.Kubelet)
	text, err := yaml.Marshal(config)
	if err != nil {
		return nil, fmt.Errorf("%w: kubelet: %w", ErrOptions, err)
	}
	return text, nil
}

func (o Options) kubeletFlags() string {
	flags := []string{
		"--config=" + etc + "/kubelet.yaml", "--kubeconfig=" + etc + "/kubelet.kubeconfig",
		"--hostname-override=" + o.Name, "--node-ip=" + o.IP,
	}
	labels := []string{}
	for _, label := range slices.Sorted(maps.Keys(o.Labels)) {
		labels = append(labels, label+"="+o.Labels[label])
	}
	if len(labels) > 0 {
		flags = append(flags, "--node-labels="+strings.Join(labels, ","))
	}
	return "FLAGS=" + strings.Join(flags, " ") + "\n"
}

func (o Options) proxyFlags() string {
	return "FLAGS=--kubeconfig=" + etc + "/kube-proxy.kubeconfig --hostname-override=" + o.Name +
		" --proxy-mode=iptables --conntrack-max-per-core=0 --detect-local-mode=BridgeInterface --pod-bridge-interface=cni0\n"
}

// network returns the CNI configuration: a bridge with addresses that belong to the node. It avoids iptables calls for
// each pod, a dozen of which take an emulated processor seconds. The script of setup does them once, and host ports are
// omitted.
func (o Options) network() ([]byte, error) {
	text, err := json.MarshalIndent(map[string]any{
		"cniVersion": "1.0.0", "name": "berth",
		"plugins": []any{
			map[string]any{
				"type": "bridge", "bridge": "cni0", "isGateway": true, "hairpinMode": true,
				"ipam": map[string]any{
					"type":   "host-local",
					"ranges": []any{[]any{map[string]any{"subnet": o.PodCIDR}}},
					"routes": []any{map[string]any{"dst": "0.0.0.0/0"}},
				},
			},
		},
	}, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("CNI configuration: %w", err)
	}
	return text, nil
}
