package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
	"sigs.k8s.io/yaml"

	"github.com/berth-project/berth/test/cluster"
	"github.com/berth-project/berth/test/cluster/controlplane"
)

// object is a part of a configuration.
type object = map[string]any

// containerd returns the runtime of the node, at its usual paths.
func containerd(p cluster.Programs) (server, error) {
	config := fmt.Sprintf(`version = 3
imports = []
oom_score = 0

[plugins.'io.containerd.cri.v1.images'.pinned_images]
  sandbox = %q
[plugins.'io.containerd.cri.v1.images'.registry]
  config_path = %q

[plugins.'io.containerd.cri.v1.runtime']
  # Not everywhere may a process be made less likely to be killed.
  restrict_oom_score_adj = true
  disable_apparmor = true
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
  runtime_type = 'io.containerd.runc.v2'
  runtime_path = %q
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
  BinaryName = %q
[plugins.'io.containerd.cri.v1.runtime'.cni]
  bin_dirs = [%q]
  conf_dir = %q
  # Filled in when the node has got its pods' addresses.
  conf_template = %q
`, PauseImage, file("config", "certs.d"), p.Shim, p.Runc, p.CNI, file("config", "cni"), file("config", "cni.template"))
	network, err := json.MarshalIndent(network(), "", "  ")
	if err != nil {
		return server{}, err
	}
	err = writeFiles(map[string][]byte{
		"containerd.toml": []byte(config), "certs.d/_default/hosts.toml": HostsTOML(), "cni.template": network,
	})
	return server{
		name: "containerd", argv: []string{p.Containerd, "--config", file("config", "containerd.toml")},
		file: "/run/containerd/containerd.sock",
	}, err
}

// HostsTOML returns a file hosts.toml for the directory _default of a containerd. With it containerd requests the
// images of every registry from the cluster's registry only.
func HostsTOML() []byte {
	return fmt.Appendf(nil, "server = \"http://%[1]s\"\n[host.\"http://%[1]s\"]\n  capabilities = [\"pull\", \"resolve\"]\n", Registry)
}

// network connects pods by a bridge. They reach each other, this machine and the networks that it routes. They use
// their own addresses, so they reach nothing beyond.
func network() object {
	return object{
		"cniVersion": "1.0.0", "name": "berth",
		"plugins": []object{
			{
				"type": "bridge", "bridge": bridge, "isDefaultGateway": true, "hairpinMode": true,
				"ipam": object{"type": "host-local", "ranges": [][]object{{{"subnet": "{{.PodCIDR}}"}}}},
			},
			{"type": "portmap", "backend": "nftables", "capabilities": object{"portMappings": true}},
		},
	}
}

// kubelet makes this machine a node, with the cgroupfs driver.
func kubelet(p cluster.Programs, plane *controlplane.ControlPlane) (server, error) {
	identity, err := plane.As("system:node:"+NodeName, "system:nodes")
	if err != nil {
		return server{}, err
	}
	cert, key, err := plane.Authority().Serving("system:node:"+NodeName, NodeName, Address)
	if err != nil {
		return server{}, err
	}
	const (
		pki        = "/var/lib/kubelet/pki"
		staticPods = "/var/lib/kubelet/static-pods"
	)
	authority, _ := plane.Keys()
	config, err := yaml.Marshal(object{
		"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
		"address": Address, "healthzBindAddress": Address,
		"authentication": object{
			"anonymous": object{"enabled": false}, "webhook": object{"enabled": true},
			"x509": object{"clientCAFile": authority},
		},
		"authorization": object{"mode": "Webhook"},
		// The kubelet stores its self-made certificate there, and the agent reads it there.
		"tlsCertFile": pki + "/kubelet.crt", "tlsPrivateKeyFile": pki + "/kubelet.key",
		"containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
		"cgroupDriver":             "cgroupfs", "cgroupRoot": Group,
		"failCgroupV1": false, "failSwapOn": false, "localStorageCapacityIsolation": false,
		"makeIPTablesUtilChains": false, // Nothing here goes through iptables.
		"oomScoreAdj":            0,
		"staticPodPath":          staticPods,
		"volumePluginDir":        "/var/lib/kubelet/volume-plugins",
		"serializeImagePulls":    false,
		// Other usage of the machine must not cause evictions.
		"evictionHard": object{
			"memory.available": "0%", "nodefs.available": "0%", "nodefs.inodesFree": "0%",
			"imagefs.available": "0%", "imagefs.inodesFree": "0%",
		},
		"imageGCHighThresholdPercent": 100,
	})
	if err != nil {
		return server{}, err
	}
	err = errors.Join(
		writeFiles(map[string][]byte{"kubelet.yaml": config}),
		os.MkdirAll(staticPods, 0o755), os.MkdirAll(pki, 0o755),
		os.WriteFile(pki+"/kubelet.crt", cert, 0o644), os.WriteFile(pki+"/kubelet.key", key, 0o600),
	)
	if err == nil {
		err = controlplane.WriteKubeconfig(identity, file("config", "kubelet.kubeconfig"))
	}
	return server{
		name: "kubelet",
		argv: []string{
			p.Kubelet, "--config=" + file("config", "kubelet.yaml"), "--kubeconfig=" + file("config", "kubelet.kubeconfig"),
			"--hostname-override=" + NodeName, "--node-ip=" + Address,
		},
	}, err
}

// kubeProxy makes services reachable through nftables.
func kubeProxy(p cluster.Programs, plane *controlplane.ControlPlane) (server, error) {
	identity, err := plane.As("system:kube-proxy")
	if err != nil {
		return server{}, err
	}
	config, err := yaml.Marshal(object{
		"apiVersion": "kubeproxy.config.k8s.io/v1alpha1", "kind": "KubeProxyConfiguration",
		"mode": "nftables", "clusterCIDR": PodCIDR, "hostnameOverride": NodeName,
		"healthzBindAddress": Address + ":10256", "metricsBindAddress": Address + ":10249",
		"clientConnection": object{"kubeconfig": file("config", "kube-proxy.kubeconfig")},
		// The machine's own settings stay unchanged.
		"conntrack": object{"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
	})
	if err != nil {
		return server{}, err
	}
	err = writeFiles(map[string][]byte{"kube-proxy.yaml": config})
	if err == nil {
		err = controlplane.WriteKubeconfig(identity, file("config", "kube-proxy.kubeconfig"))
	}
	return server{name: "kube-proxy", argv: []string{p.KubeProxy, "--config=" + file("config", "kube-proxy.yaml")}}, err
}

// controllerManager runs the controllers, except those for certificates and leader election.
func controllerManager(p cluster.Programs, plane *controlplane.ControlPlane) (server, error) {
	identity, err := plane.As("system:kube-controller-manager")
	if err != nil {
		return server{}, err
	}
	kubeconfig := file("config", "kube-controller-manager.kubeconfig")
	authority, accounts := plane.Keys()
	return server{
		name: "kube-controller-manager",
		argv: []string{
			p.ControllerManager, "--kubeconfig=" + kubeconfig, "--secure-port=0", "--leader-elect=false",
			"--use-service-account-credentials=true", "--service-account-private-key-file=" + accounts, "--root-ca-file=" + authority,
			"--allocate-node-cidrs=true", "--cluster-cidr=" + PodCIDR, "--node-cidr-mask-size=24", "--service-cluster-ip-range=" + ServiceCIDR,
		},
	}, controlplane.WriteKubeconfig(identity, kubeconfig)
}

// images is the registry.
func images(p cluster.Programs) server {
	argv := []string{
		p.Images, "serve", "-packed", p.Packed, "-listen", Registry, "-blobs", file("registry"),
		"-version", p.Release.Version, "-seconds", strconv.FormatInt(p.Release.Seconds, 10),
	}
	for name, path := range p.Contained {
		argv = append(argv, "-program", name+"="+path)
	}
	return server{name: "images", argv: argv}
}

// writeFiles writes configurations below the directory config.
func writeFiles(files map[string][]byte) error {
	for name, content := range files {
		path := file("config", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, content, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// mountNode mounts directories below Dir at the usual paths of a node, in the mount name space of this process, which
// shares mounts with the name spaces of the containers.
func mountNode() error {
	if err := unix.Mount("", "/", "", unix.MS_SHARED|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("share mounts: %w", err)
	}
	for _, dir := range nodeDirs() {
		for _, d := range []string{dir, hostDir(dir)} {
			if err := os.MkdirAll(d, 0o755); err != nil {
				return err
			}
		}
		if err := unix.Mount(hostDir(dir), dir, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("mount %s: %w", dir, err)
		}
	}
	return nil
}
