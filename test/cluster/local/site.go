package local

import (
	"errors"
	"path/filepath"
	"strings"
)

// The cluster's place on the machine.
const (
	// Dir is the directory with every file of the cluster.
	Dir = "/var/lib/berth-cluster"
	// Group is the control group, in each hierarchy, of all processes of the cluster. The kubelet makes the groups of
	// pods below it.
	Group = "/berth-cluster"
	// NodeName is the node name of this machine.
	NodeName = "berth-native"
	// Address is the listening address of the API server, the registry and the kubelet of NodeName.
	Address = "198.18.0.1"
	// SecondAddress is free for a node in a virtual machine.
	SecondAddress = "198.18.0.2"
	// Registry is the host and port of the mirror of all registries, plain HTTP.
	Registry = Address + ":5000"
	// PodCIDR is the address range of pods; each node gets a /24 of it.
	PodCIDR = "198.18.128.0/17"
	// ServiceCIDR is the address range of services.
	ServiceCIDR = "198.19.0.0/16"
	// PauseImage is the image of a pod's sandbox. The mirror has it under any host name.
	PauseImage = "localhost/pause:1"
)

// Links of the cluster: berth0 has the addresses, and berth-br0 connects the pods.
const (
	link   = "berth0"
	bridge = "berth-br0"
)

var (
	// ErrNotUp reports that no cluster runs.
	ErrNotUp = errors.New("no cluster runs here; run: make cluster")
	// ErrHost reports that this machine cannot run the cluster; the message contains the reason.
	ErrHost = errors.New("this machine cannot run the cluster")
	// ErrFailed reports that the cluster could not be started or ended.
	ErrFailed = errors.New("the cluster failed")
)

// file returns a path below Dir.
func file(elements ...string) string {
	return filepath.Join(append([]string{Dir}, elements...)...)
}

// Kubeconfig returns the path of the administrator's configuration.
func Kubeconfig() string { return file("kubeconfig") }

// nodeDirs returns the usual directories of a node of which the cluster has its own.
func nodeDirs() []string {
	return []string{
		"/var/lib/kubelet", "/var/lib/containerd", "/run/containerd", "/run/nri", "/run/netns",
		"/var/lib/cni", "/var/log/pods", "/var/log/containers", "/opt/containerd", "/var/lib/berth",
	}
}

// NodePath translates a path that the node's programs use, such as /run/containerd/containerd.sock, to the path in the
// rest of the machine.
func NodePath(usual string) string {
	for _, dir := range nodeDirs() {
		if rest, ok := strings.CutPrefix(usual, dir); ok && (rest == "" || rest[0] == '/') {
			return hostDir(dir) + rest
		}
	}
	return usual
}

// hostDir returns the directory below Dir that the cluster mounts at a directory of a node.
func hostDir(dir string) string {
	return file("node", strings.ReplaceAll(strings.Trim(dir, "/"), "/", "-"))
}
