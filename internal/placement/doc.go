// Package placement decides what becomes of a pod on a node: which CPUs it
// gets, whether there is room by the accounting rule, where its memory may come
// from, and how good that is compared with other nodes. It joins what a pod
// asks for (workload) with what fits on a machine (alloc), and knows neither
// Kubernetes nor a clock: the scheduler, the agent and "berth simulate" get the
// same answers from the same facts.
//
// # Facts
//
// An Ask is a pod's request, made ready once. A Node is a machine with its policy
// and its sums. A Held is what one bound pod holds, read from its annotation,
// which is believed only as far as it cannot do harm. An Occupancy is the sum
// of the Helds of a node. It is always made anew from the pods that are there
// and never kept up to date, so that pods that are only nominated, or about to
// be preempted, are added or left out like any other.
//
// # Deciding
//
// Decide asks, cheapest first: does the node's policy contradict the pod; do
// the sums leave room (Node.Surplus says the rule); are there enough CPUs
// besides those promised to pods that run on unknown CPUs; then the
// allocator. Its answer is checked against the sums once more where CPUs stay
// empty beside it. The shared pool keeps one whole core: where an answer would
// take the last one, each core that could stay is held out in turn, and the best
// of the answers then counts.
//
// Memory is bound to the NUMA nodes of a container's CPUs only where it is known to
// fit: all that is bound to any of these nodes, its own, and all that pods of the
// node request and that is bound nowhere leave a tenth of the memory of these nodes
// that is not huge pages. Huge pages of each size are counted beside it, to the last
// one; what is bound nowhere may be in any node. A container without a bound may use
// all nodes, always.
package placement
