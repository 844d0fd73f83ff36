package manifest

import (
	"fmt"
	"strings"

	"github.com/berth-project/berth/api/v1alpha1"
)

// PrintConfig returns the agent's file with every field at its default and a
// comment on each; the parts are those of the capabilities, as lines of YAML. It reads
// back as exactly the defaults; workloadDir, which has none, is the usual place.
func PrintConfig(parts ...string) string {
	return fmt.Sprintf(configText,
		v1alpha1.DefaultStateDir, v1alpha1.DefaultListen, strings.Join(parts, ""),
		v1alpha1.DefaultKubeletDir, v1alpha1.DefaultNRISocket)
}

const configText = `# The file of berth agent. Only workloadDir is required; all else shows its default.
# Relative directories are relative to the directory of this file.

# Workload documents, *.yaml and *.yml. Changes are picked up.
workloadDir: /etc/berth/workloads

# Journal, checkpoint and history; locked by the agent.
stateDir: %s

# Metrics, health and the JSON API, as host:port. A busy address is an error; in a cluster it is tried until it is free.
listen: %s

# CPUs kept for the host, in the kernel's list format, for example "0-1".
reservedCPUs: ""

# Control groups that shrink to the shared pool, relative to the hierarchy's root.
sharedPool: []

%s# ConfigMaps of others that count in a cluster: ack-slo (namespace kube-system), koordinator
# (koordinator-system). List a peer only where no user may make ConfigMaps in its namespace.
readPeerConfig: []

# On a node of Kubernetes: the pods of the node are workloads too, and workloadDir may be left out.
cluster:
  enabled: false
  # The name of the Node object; empty: the host's name in lower case.
  nodeName: ""
  # The way to the API server; empty: that of the service account, inside a pod.
  kubeconfig: ""
  # Where the kubelet serves pods and its configuration; empty: port 10250 of this host. Its root directory.
  kubeletURL: ""
  kubeletDir: %s
  # Authorities that sign its serving certificate, in PEM; empty: it is known by the certificate in its directory.
  kubeletCA: ""
  # The container runtime's Node Resource Interface; "none" where it has none.
  nriSocket: %s
  # What pods of this node may have for themselves, whoever bound them; the fields are those of the scheduler's plugin.
  pinning:
    # Whose pods may; empty: all.
    namespaces: []
    # The most CPUs that the pods of one namespace hold on this node; 0: no cap.
    maxPinnedCPUsPerNamespace: 0
    # allow or deny pods that request less CPU than the limits of their pinned containers say.
    requestBelowLimit: allow
  # Its CRI, for example unix:///run/containerd/containerd.sock: asked where it has no NRI; empty: never.
  runtimeEndpoint: ""
`
