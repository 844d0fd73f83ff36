// Package strategy reads what a cluster's administrator asks for on behalf of
// pods, and decides what counts for one pod.
//
// The strategies stand in ConfigMaps, of Berth's own and of those that ACK and
// Koordinator defined, in their form. They are data here: who fetches them, and
// when, is up to the caller.
//
// Each of the keys cpu-burst-config, resource-qos-config and
// resource-threshold-config counts from the first ConfigMap of
// berth-system/berth-config, kube-system/ack-slo-config and
// koordinator-system/slo-controller-config that has it, as a whole: two
// administrators' halves make no policy. Those of other namespaces than Berth's count
// only where the agent's file lists their peer (readPeerConfig): whoever may make such
// a namespace decides about the pods of all others. The last one is left to koordlet
// where that runs on the node. A value that cannot be read changes nothing: the last
// good one stays in force, and the problem says which.
//
// The key state of Berth's own ConfigMap is about the agents as a whole: StateRestore has them
// put everything back.
//
// Burst is decided field by field from the most specific source to the most
// general: the pod's annotation, the ConfigMap that selects pods by label
// (koordinator-system/cfs-quota-burst-cm), the namespace lists
// (koordinator-system/ack-slo-pod-config), the first node strategy whose
// selector matches, the cluster strategy, and the agent's file where no
// ConfigMap has the key. Offline pods are left out of what is said for many pods
// at once: a namespace, a node or the cluster; it would be at the cost of the
// online ones. What was said to a pod itself, by annotation or label, counts for
// every pod.
//
// A pod is offline by its label. A BestEffort pod without the label is offline only
// where resource-threshold-config or beClass.cpuQOS is enabled for the node, and never
// in kube-system or with system priority.
//
// All functions are pure.
package strategy
