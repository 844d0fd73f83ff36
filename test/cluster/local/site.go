package local

import (
	"errors"
	"path/filepath"
	"strings"
)

// The cluster's place on the machine.
const (
	// Dir holds every file of the cluster.
	Dir = "/var/lib/berth-cluster"
	// Group is the control group, in each hierarchy, of all processes of the cluster; the
	// kubelet makes those of pods below it.
	Group = "/berth-cluster"
	// NodeName is the node that this machine is.
	NodeName = "berth-native"
	// Address is where the API server, the registry and the kubelet of NodeName listen.
	Address = "198.18.0.1"
	// SecondAddress is free for a node in a virtual machine.
	SecondAddress = "198.18.0.2"
	// Registry is the host and port of the mirror of all registries, plain HTTP.
	Registry = Address + ":5000"
	// PodCIDR holds the addresses of pods; each node gets a /24 of it.
	PodCIDR = "198.18.128.0/17"
	// ServiceCIDR holds the addresses of services.
	ServiceCIDR = "198.19.0.0/16"
	// PauseImage holds the name spaces of a pod. The mirror has it under any host name.
	PauseImage = "localhost/pause:1"
)

// Links of the cluster: one that holds the addresses, and the bridge of the pods.
const (
	link   = "berth0"
	bridge = "berth-br0"
)

var (
	// ErrNotUp says that no cluster runs.
	ErrNotUp = errors.New("no cluster runs here; run: make cluster")
	// ErrHost says that this machine cannot run the cluster; the message says why.
	ErrHost = errors.New("this machine cannot run the cluster")
	// ErrFailed says that the cluster could not be started, or ended.
	ErrFailed = errors.New("the cluster failed")
)

// file is a path below Dir.
func file(elements ...string) string {
	return filepath.Join(append([]string{Dir}, elements...)...)
}

// Kubeconfig is the path of the administrator's configuration.
func Kubeconfig() string { return file("kubeconfig") }

// nodeDirs are the directories of a node that the cluster has for itself.
func nodeDirs() []string {
	return []string{
		"/var/lib/kubelet", "/var/lib/containerd", "/run/containerd", "/run/nri", "/run/netns",
		"/var/lib/cni", "/var/log/pods", "/var/log/containers", "/opt/containerd", "/var/lib/berth",
	}
}

// NodePath is the path, as the rest of the machine sees it, of a file that the node's programs
// know by its usual path, like /run/containerd/containerd.sock.
func NodePath(usual string) string {
	for _, dir := range nodeDirs() {
		if rest, ok := strings.CutPrefix(usual, dir); ok && (rest == "" || rest[0] == '/') {
			return hostDir(dir) + rest
		}
	}
	return usual
}

// hostDir is the directory below Dir that stands for a directory of a node.
func hostDir(dir string) string {
	return file("node", strings.ReplaceAll(strings.Trim(dir, "/"), "/", "-"))
}
