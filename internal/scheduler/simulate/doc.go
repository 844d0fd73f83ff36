// Package simulate simulates a cluster: it reads manifests, or the objects of a live cluster, and decides as the
// scheduler does, without a scheduler.
//
// # What goes in
//
// Read accepts NodeTopology, Node, Pod, Deployment, StatefulSet and Job, strictly. An unknown field, a value of the
// wrong kind, a request above its limit or a contradictory machine is an error with file, document, field, value and
// the allowed values. Other kinds are counted and ignored. Workloads become pods numbered from 0, so that the same
// input always has the same pods. Observe reads the same objects from an API server.
//
// A pod with a node and a status is bound: it holds what its annotation berth.dev/placement says, as far as that is
// credible. A pod with a node and no status is preset: its manifest bypasses the scheduler, and the node's agent places
// it, before all other pods. All other pods wait.
//
// # How it decides
//
// Pods are placed one by one, higher priority first, then in the order of the input. A node must pass the checks of
// kube-scheduler (unschedulable, taints, node selector and required node affinity, number of pods, CPU, memory). It
// must then pass Berth's checks, by the same functions that the scheduler's plugin uses: placement.Node.Room for an
// ordinary pod, placement.Decide for a pinned pod. Among the nodes that accept the pod the greatest placement.Score
// wins, among equals the first name. The pod's annotation is then written and read back, so that the node remembers the
// pod exactly as a scheduler after a restart. Replicas have the same request on all nodes. A decision is therefore
// remembered by node and shape of the request until the node gets another pod. If a pod asks like the pod before it,
// only the nodes that have since got a pod are asked.
//
// Any other mechanism that decides in a real cluster is a Gap. The report lists the gaps that the input touches; none
// is silent.
//
// # Fragmentation
//
// A free CPU is scattered if its L3 domain is partly in use (without L3 domains: its NUMA node). A pod that gets it
// shares the cache, and no pod can have the whole domain. Fragmentation is the share of scattered CPUs among the CPUs
// that no pod has. It is 0 on an empty machine and on a full machine. The report counts as free what pods can still get:
// one whole core stays with the shared pool. It also has the largest counts that still fit into
// one NUMA node and one L3 domain, the wholly free domains and cores, and the broken cores (placement.FragmentationOf).
// The status of a NodeTopology has the same figure.
package simulate
