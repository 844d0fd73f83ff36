package strategy

import (
	"slices"
	"strings"

	"github.com/berth-project/berth/api/v1alpha1"
)

// Name is a ConfigMap as "namespace/name".
type Name string

// The ConfigMaps that Berth reads; a peer's ConfigMap only where the agent's file lists the peer. If several of the first
// three ConfigMaps have a key, the first of them applies.
const (
	// BerthConfig is Berth's own ConfigMap. An unknown field is a mistake here: the agent refuses the key, and the last
	// good value stays in force. In the ConfigMaps of peers, unknown fields have no effect.
	BerthConfig Name = "berth-system/berth-config"
	// ACKConfig is ACK's ConfigMap.
	ACKConfig Name = "kube-system/ack-slo-config"
	// KoordinatorConfig is Koordinator's ConfigMap. It has no effect on nodes where koordlet runs.
	KoordinatorConfig Name = "koordinator-system/slo-controller-config"
	// NamespaceConfig switches bursting on or off for namespaces, in ACK's format.
	NamespaceConfig Name = "koordinator-system/ack-slo-pod-config"
	// LabelConfig selects pods by label: all of its keys except KeyBurst are labels.
	LabelConfig Name = "koordinator-system/cfs-quota-burst-cm"
)

// Names returns the ConfigMaps that Berth reads: first those with a cluster's strategies, in order of precedence.
func Names() []Name {
	return []Name{BerthConfig, ACKConfig, KoordinatorConfig, NamespaceConfig, LabelConfig}
}

// Keys of the ConfigMaps.
const (
	// KeyBurst is a v1alpha1.BurstStrategies as JSON, in LabelConfig a v1alpha1.CPUBurst.
	KeyBurst = "cpu-burst-config"
	// KeyQOS is a v1alpha1.ResourceQOSStrategies as JSON.
	KeyQOS = "resource-qos-config"
	// KeyThreshold is a v1alpha1.ResourceThresholdStrategies as JSON.
	KeyThreshold = "resource-threshold-config"
	// KeyState is StateRestore or absent, in BerthConfig only.
	KeyState = "state"
	// KeyNamespaces is a v1alpha1.NamespaceSwitch as JSON, in NamespaceConfig.
	KeyNamespaces = "cpu-burst"
)

// StateRestore is the value of KeyState that makes every agent restore all that it changed.
const StateRestore = "restore"

// Maps are the data of the ConfigMaps that exist.
type Maps map[Name]map[string]string

// peer returns the owner of the ConfigMap, "" for Berth.
func (n Name) peer() v1alpha1.PeerConfig {
	switch n {
	case ACKConfig:
		return v1alpha1.PeerACK
	case KoordinatorConfig, NamespaceConfig, LabelConfig:
		return v1alpha1.PeerKoordinator
	default:
		return ""
	}
}

// heeded reports whether the ConfigMap takes effect if the agent's file lists these peers.
func (n Name) heeded(peers []v1alpha1.PeerConfig) bool {
	peer := n.peer()
	return peer == "" || slices.Contains(peers, peer)
}

// Split returns the namespace and the name.
func (n Name) Split() (namespace, name string) {
	namespace, name, _ = strings.Cut(string(n), "/")
	return namespace, name
}
