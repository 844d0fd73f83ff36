// Package strategy reads the policies that a cluster's administrator writes for pods, and decides the policy of one
// pod.
//
// The strategies are in ConfigMaps: Berth's own, and those that ACK and Koordinator defined, in their format. This
// package takes them as data: the caller decides when to fetch them.
//
// The keys cpu-burst-config, resource-qos-config and resource-threshold-config are each read, as a whole, from the
// first ConfigMap that has the key: berth-system/berth-config, kube-system/ack-slo-config,
// koordinator-system/slo-controller-config. Berth does not merge them. A ConfigMap outside of Berth's namespace takes
// effect only where the agent's file lists its peer (readPeerConfig): whoever may create such a namespace decides about
// all pods. The last ConfigMap is left to koordlet where koordlet runs on the node. A value that cannot be read changes
// nothing: the last good value stays in force, and the problem names it.
//
// The key state of Berth's own ConfigMap is for all agents: StateRestore makes them restore everything.
//
// Burst is decided field by field, from the most specific source to the most general: the pod's annotation; the
// ConfigMap that selects pods by label (koordinator-system/cfs-quota-burst-cm); the namespace lists
// (koordinator-system/ack-slo-pod-config); the first node strategy whose selector matches; the cluster strategy; and
// the agent's file where no ConfigMap has the key. A policy for a namespace, a node or the cluster does not apply to
// offline pods: they would burst at the cost of the online pods. A policy for a pod itself, by annotation or label,
// applies to every pod.
//
// A pod is offline by its label. A BestEffort pod without the label is offline only where resource-threshold-config or
// beClass.cpuQOS is enabled for the node, and never in kube-system or with system priority.
//
// All functions are pure.
package strategy
