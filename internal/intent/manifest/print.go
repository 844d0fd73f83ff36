package manifest

import (
	"fmt"
	"strings"

	"github.com/berth-project/berth/api/v1alpha1"
)

// PrintConfig returns the agent's file with every field at its default and a comment on each; parts are the sections of
// the capabilities, as lines of YAML. LoadConfig reads exactly the defaults from it; workloadDir, which has no default,
// is the usual directory.
func PrintConfig(parts ...string) string {
	return fmt.Sprintf(configText,
		v1alpha1.DefaultStateDir, v1alpha1.DefaultListen,
		v1alpha1.DefaultHistoryRetention, v1alpha1.DefaultHistoryMaxBytes, strings.Join(parts, ""),
		v1alpha1.DefaultKubeletDir, v1alpha1.DefaultNRISocket)
}

const configText = `# The file of berth agent. Only workloadDir is required; all else shows its default.
# Relative directories are relative to the directory of this file.

# Workload documents, *.yaml and *.yml. Changes are picked up.
workloadDir: /etc/berth/workloads

# Journal, checkpoint and history; locked by the agent.
stateDir: %s

# Page, metrics and health, as host:port. A busy address is an error; in a cluster it is tried until it is free.
listen: %s

# Who may ask there. token: clients need a bearer token for all but health; true in a cluster and
# only there. hosts: names or addresses of this host, besides loopback names and the address itself.
# tls: certificate and key in PEM, read again when they change; needed where listen is beyond
# loopback, which only the agent of a cluster may have, and nowhere else.
web: {token: false, hosts: [], tls: {certFile: "", keyFile: ""}}

# CPUs kept for the host, in the kernel's list format, for example "0-1".
reservedCPUs: ""

# Control groups that shrink to the shared pool, relative to the hierarchy's root.
sharedPool: []

# What workloads had and used, a sample a second, in the directory history of stateDir; the last
# 15 minutes are in memory anyway. enabled: true without Kubernetes, false in a cluster.
# retention: 15m to 744h. maxBytes: 1Mi to 4Gi, all files together. What is over goes, the oldest first.
# listen: answers PromQL there, for example at 127.0.0.1:9317; loopback, and not in a cluster; empty: nowhere.
history: {enabled: true, retention: %s, maxBytes: %s, listen: ""}

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
