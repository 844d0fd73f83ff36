package strategy

import (
	"slices"
	"strings"

	"github.com/berth-project/berth/api/v1alpha1"
)

// Name is a ConfigMap as "namespace/name".
type Name string

// The ConfigMaps that are read, those of peers where the agent's file lists them. Of the first three the first that has a key
// counts for that key.
const (
	// BerthConfig is Berth's own.
	BerthConfig Name = "berth-system/berth-config"
	// ACKConfig is that of ACK.
	ACKConfig Name = "kube-system/ack-slo-config"
	// KoordinatorConfig is that of Koordinator.
	KoordinatorConfig Name = "koordinator-system/slo-controller-config"
	// NamespaceConfig switches bursting for namespaces, as ACK defined it.
	NamespaceConfig Name = "koordinator-system/ack-slo-pod-config"
	// LabelConfig selects pods by label: all of its keys but KeyBurst are labels.
	LabelConfig Name = "koordinator-system/cfs-quota-burst-cm"
)

// Names returns the ConfigMaps that are read, those of a cluster's strategies
// first and in the order in which they count.
func Names() []Name {
	return []Name{BerthConfig, ACKConfig, KoordinatorConfig, NamespaceConfig, LabelConfig}
}

// Keys of the ConfigMaps.
const (
	// KeyBurst holds v1alpha1.BurstStrategies as JSON, in LabelConfig a
	// v1alpha1.CPUBurst.
	KeyBurst = "cpu-burst-config"
	// KeyQOS holds v1alpha1.ResourceQOSStrategies as JSON.
	KeyQOS = "resource-qos-config"
	// KeyThreshold holds v1alpha1.ResourceThresholdStrategies as JSON.
	KeyThreshold = "resource-threshold-config"
	// KeyState holds StateRestore, in BerthConfig only.
	KeyState = "state"
	// KeyNamespaces is the key of NamespaceConfig, a v1alpha1.NamespaceSwitch as
	// JSON.
	KeyNamespaces = "cpu-burst"
)

// StateRestore is the value of KeyState that makes every agent put back all that it changed.
const StateRestore = "restore"

// Maps are the data of the ConfigMaps that exist.
type Maps map[Name]map[string]string

// peer returns whose ConfigMap it is, "" for Berth's own.
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

// heeded says whether it counts where these peers are listed.
func (n Name) heeded(peers []v1alpha1.PeerConfig) bool {
	peer := n.peer()
	return peer == "" || slices.Contains(peers, peer)
}

// Split returns the namespace and the name.
func (n Name) Split() (namespace, name string) {
	namespace, name, _ = strings.Cut(string(n), "/")
	return namespace, name
}
