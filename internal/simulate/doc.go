// Package simulate is a cluster on paper: it reads manifests, or the objects of
// a live cluster, and decides as the scheduler does, without one.
//
// # What goes in
//
// Read takes NodeTopology, Node, Pod, Deployment, StatefulSet and Job, strictly:
// a field that the type lacks, a value of the wrong kind, a request above its
// limit or a machine that contradicts itself is an error with file, document,
// field, value and what is allowed. Other kinds are counted and ignored.
// Workloads become pods numbered from 0, so that the same input always has the
// same pods. Observe reads the same objects from an API server.
//
// A pod with a node and a status is bound: it holds what its annotation
// berth.dev/placement says, as far as that can be believed. One with a node and
// no status is preset: its manifest passes the scheduler by, and the node's
// agent places it, before all others. All other pods wait.
//
// # How it decides
//
// Pods are taken one by one, higher priority first, then in the order of the
// input. A node must pass what kube-scheduler asks (unschedulable, taints, node
// selector and required node affinity, number of pods, CPU, memory) and then
// what Berth asks, through the very functions that the scheduler's plugin uses:
// placement.Node.Room for an ordinary pod, placement.Decide for a pinned one.
// Among the nodes that take the pod the greatest placement.Score wins, among
// equals the first name. The pod's annotation is then made and read back, so
// that the node remembers the pod exactly as a scheduler would that starts anew.
// Decisions are remembered by node and shape of the request until the node gets
// another pod, since replicas ask the same of all nodes; and of a pod that asks like
// the one before it only the nodes that got a pod meanwhile are asked at all.
//
// Whatever else decides in a real cluster is a Gap. Those that the input
// touches are in the report; nothing is passed over in silence.
//
// # Fragmentation
//
// A free CPU is scattered if it lies in an L3 domain that is partly in use (in a
// NUMA node, where there is no L3 domain): whoever gets it shares the cache, and
// the domain as a whole is lost to those who need one. Fragmentation is the
// share of scattered CPUs among the free ones. It is 0 on an empty machine and
// on a full one. Beside it stand the largest counts that still fit into one NUMA
// node and one L3 domain, the domains and cores that are free as a whole, and
// the cores that are broken (placement.FragmentationOf). The status of a
// NodeTopology has the same figure.
package simulate
