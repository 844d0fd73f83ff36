package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Workload is one workload on a host without Kubernetes: its processes, and the requests in its labels and annotations.
// Only name, labels and annotations of the metadata have a meaning here, and only they are accepted.
//
// +kubebuilder:skipversion
type Workload struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec WorkloadSpec `json:"spec"`
}

// WorkloadSpec says where the processes are and what they were promised. Exactly one of Cgroup, SystemdUnit and PIDs is
// set.
type WorkloadSpec struct {
	// Cgroup is a control group and all groups below it, as a clean path relative to the root of each hierarchy, for
	// example "system.slice/redis.service".
	Cgroup string `json:"cgroup,omitempty"`
	// SystemdUnit is a unit of the system's systemd that has a control group: a service, scope or slice. Units of a
	// user or a container are named by Cgroup.
	SystemdUnit string `json:"systemdUnit,omitempty"`
	// PIDs are processes that have one control group to themselves.
	PIDs []int `json:"pids,omitempty"`
	// CPU holds the promised CPU time.
	CPU WorkloadCPU `json:"cpu,omitzero"`
}

// WorkloadCPU holds Kubernetes quantities of CPU, from 1m upwards in steps of 1m.
type WorkloadCPU struct {
	// Request is optional and at most Limit.
	Request *resource.Quantity `json:"request,omitempty"`
	// Limit is read from the group if it is absent.
	Limit *resource.Quantity `json:"limit,omitempty"`
}

// AgentConfig is the agent's file. Only WorkloadDir is required, and in a cluster no field is.
type AgentConfig struct {
	// WorkloadDir is the directory of the Workload documents. A relative path is relative to the directory of the file.
	WorkloadDir string `json:"workloadDir"`
	// StateDir has the journal, the checkpoint and the history. The agent locks it. A relative path is relative to the
	// directory of the file.
	StateDir string `json:"stateDir,omitempty"`
	// Listen is the host:port that serves metrics and health.
	Listen string `json:"listen,omitempty"`
	// Web says who may send requests to Listen.
	Web WebConfig `json:"web,omitzero"`
	// ReservedCPUs are reserved for the host, as a CPU list such as "0-1".
	ReservedCPUs string `json:"reservedCPUs,omitempty"`
	// SharedPool names the groups that shrink to the shared pool for pinned workloads.
	SharedPool []string `json:"sharedPool,omitempty"`
	// CPUBurst is the administrator's burst configuration for the workloads.
	CPUBurst CPUBurstConfig `json:"cpu-burst-config,omitzero"`
	// ResourceQOS is the administrator's configuration for the classes of workloads.
	ResourceQOS ResourceQOSConfig `json:"resource-qos-config,omitzero"`
	// ResourceThreshold says how much offline workloads may use.
	ResourceThreshold ResourceThresholdConfig `json:"resource-threshold-config,omitzero"`
	// Isolation says what offline workloads leave to other workloads on this host.
	Isolation IsolationConfig `json:"isolation,omitzero"`
	// Burst has the administrator's switch and caps of bursting.
	Burst BurstConfig `json:"burst,omitzero"`
	// Locality has the administrator's switch and bound of moving pages.
	Locality LocalityConfig `json:"locality,omitzero"`
	// History says how much history is retained on disk.
	History HistoryConfig `json:"history,omitzero"`
	// ReadPeerConfig lists the peers whose ConfigMaps are read in namespaces other than Berth's own. It has each of
	// PeerConfigs at most once.
	ReadPeerConfig []PeerConfig `json:"readPeerConfig,omitempty"`
	// Cluster configures the agent of a node of Kubernetes.
	Cluster ClusterConfig `json:"cluster,omitzero"`
}

// WebConfig says who may send requests to the agent's address.
type WebConfig struct {
	// Token says whether clients need a bearer token for everything but health. Only a node of Kubernetes has an API
	// server that reviews tokens, and it always needs them. Never nil after SetAgentConfigDefaults.
	Token *bool `json:"token,omitempty"`
	// Hosts are names or addresses of this host that requests may use, in addition to loopback names and the address at
	// which a request arrives.
	Hosts []string `json:"hosts,omitempty"`
	// TLS is the certificate that the agent serves at an address beyond loopback.
	TLS TLSFiles `json:"tls,omitzero"`
}

// TLSFiles names a serving certificate, with the certificates of its authorities, and its key, in PEM. A relative path
// is relative to the directory of the agent's file.
type TLSFiles struct {
	CertFile string `json:"certFile,omitempty"`
	KeyFile  string `json:"keyFile,omitempty"`
}

// ClusterConfig says how the agent reaches the parts of Kubernetes that it talks to.
type ClusterConfig struct {
	// Enabled true makes the pods of this node workloads. Never nil after SetAgentConfigDefaults.
	Enabled *bool `json:"enabled,omitempty"`
	// NodeName is the name of the Node object. If it is empty, it is the host's name in lower case, as for the kubelet.
	NodeName string `json:"nodeName,omitempty"`
	// Kubeconfig is a file that says how to reach the API server; empty inside a pod, where the service account says
	// it.
	Kubeconfig string `json:"kubeconfig,omitempty"`
	// KubeletURL is where the kubelet serves pods and its configuration, https. If it is empty, the agent uses port
	// 10250 of the node's address that it was given, or else of the loopback address.
	KubeletURL string `json:"kubeletURL,omitempty"`
	// KubeletDir is the kubelet's root directory, with its state files and its serving certificate.
	KubeletDir string `json:"kubeletDir,omitempty"`
	// KubeletCA is a file with the authorities, in PEM, that sign the kubelet's serving certificate. The certificate
	// must then be for the node's name or address. If it is empty, the agent identifies the kubelet by the certificate
	// in KubeletDir.
	KubeletCA string `json:"kubeletCA,omitempty"`
	// NRISocket is where the container runtime serves its Node Resource Interface; "none" if it has none.
	NRISocket string `json:"nriSocket,omitempty"`
	// Pinning says which exclusive CPUs the agent allows pods to have.
	Pinning PinRules `json:"pinning,omitzero"`
	// RuntimeEndpoint is where the container runtime serves its CRI. The agent uses it if the runtime has no NRI; empty
	// for never.
	RuntimeEndpoint string `json:"runtimeEndpoint,omitempty"`
}

// PinRules has the fields of SchedulerArgs of the same names, for the agent. The agent applies them to the pods of its
// node, including pods that no berth-scheduler bound.
type PinRules struct {
	// Namespaces are the namespaces whose pods may have exclusive CPUs; empty for all.
	Namespaces []string `json:"namespaces,omitempty"`
	// MaxPinnedCPUsPerNamespace caps the CPUs that the pods of one namespace hold on this node, 0 for no cap. Never nil
	// after SetAgentConfigDefaults.
	MaxPinnedCPUsPerNamespace *int64 `json:"maxPinnedCPUsPerNamespace,omitempty"`
	// RequestBelowLimit says whether a pod may request less than it gets, one of RequestBelowLimits. Never empty after
	// SetAgentConfigDefaults.
	RequestBelowLimit RequestBelowLimit `json:"requestBelowLimit,omitempty"`
}

// PeerConfig names a peer whose cluster configuration Berth reads in addition to its own. Each peer is one namespace:
// users who may write ConfigMaps there decide about all pods.
type PeerConfig string

// The peers.
const (
	// PeerACK is ack-slo-config in kube-system.
	PeerACK PeerConfig = "ack-slo"
	// PeerKoordinator is slo-controller-config, ack-slo-pod-config and cfs-quota-burst-cm in koordinator-system.
	PeerKoordinator PeerConfig = "koordinator"
)

// PeerConfigs returns the peers in the order of messages and documentation.
func PeerConfigs() []PeerConfig { return []PeerConfig{PeerACK, PeerKoordinator} }

// CPUBurstConfig has the form of the key cpu-burst-config in a cluster's configuration.
type CPUBurstConfig struct {
	// ClusterStrategy applies to every workload without an annotation of its own.
	ClusterStrategy BurstStrategy `json:"clusterStrategy,omitzero"`
}

// BurstConfig switches and caps bursting on this host.
type BurstConfig struct {
	// Enabled false means that no quota and no burst is ever written. Never nil after SetAgentConfigDefaults.
	Enabled *bool `json:"enabled,omitempty"`
	// MaxPercent caps every cfsQuotaBurstPercent, in percent of the limit, 100 to 10000. Never nil after
	// SetAgentConfigDefaults.
	MaxPercent *int64 `json:"maxPercent,omitempty"`
	// MaxPeriodSeconds caps the cfsQuotaBurstPeriodSeconds of every annotation, 0 to 86400 seconds. Never nil after
	// SetAgentConfigDefaults.
	MaxPeriodSeconds *int64 `json:"maxPeriodSeconds,omitempty"`
	// AllowUnlimited true lets an annotation ask for unlimited credit, a cfsQuotaBurstPeriodSeconds of -1. Never nil
	// after SetAgentConfigDefaults.
	AllowUnlimited *bool `json:"allowUnlimited,omitempty"`
}

// IsolationConfig says what offline workloads leave to other workloads on this host.
type IsolationConfig struct {
	// PullReservePercent is the share of each L3 domain's CPUs that idle offline workloads leave free while they have
	// no cores of their own, 0 to 50 percent. 0 means none. Never nil after SetAgentConfigDefaults.
	PullReservePercent *int64 `json:"pullReservePercent,omitempty"`
}

// CPUBurst is the value of AnnotationCPUBurst. A nil field is inherited from the cluster strategy, or else from the
// defaults.
type CPUBurst struct {
	// Policy is one of CPUBurstPolicies.
	Policy *CPUBurstPolicy `json:"policy,omitempty"`
	// CPUBurstPercent is the kernel's burst in percent of limit times period, 0 to 10000; the kernel may accept less.
	CPUBurstPercent *int64 `json:"cpuBurstPercent,omitempty"`
	// CFSQuotaBurstPercent is the ceiling of the quota in percent of the limit, 100 to 10000.
	CFSQuotaBurstPercent *int64 `json:"cfsQuotaBurstPercent,omitempty"`
	// CFSQuotaBurstPeriodSeconds is how long full credit lasts at the ceiling, -1 to 86400 seconds. -1 means unlimited
	// credit; 0 means no credit, so that the quota is never raised.
	CFSQuotaBurstPeriodSeconds *int64 `json:"cfsQuotaBurstPeriodSeconds,omitempty"`
}

// BurstStrategy is a CPUBurst for many workloads, with the guard of the node.
type BurstStrategy struct {
	CPUBurst `json:",inline"`
	// SharePoolThresholdPercent is the use of the shared pool, 0 to 100 percent, from which on the headroom is divided.
	SharePoolThresholdPercent *int64 `json:"sharePoolThresholdPercent,omitempty"`
}
