// Package placement decides what becomes of a pod on a node: which CPUs it gets, whether there is room by the
// accounting rule, where its memory may come from, and how good the place is compared with other nodes. It joins what a
// pod asks for (workload) with what fits on a machine (alloc), and uses neither Kubernetes nor a clock. So the
// scheduler, the agent and "berth simulate" get the same answers from the same facts.
//
// # Facts
//
// An Ask is a pod's request, prepared once. A Node is a machine with its policy and its sums. A Held is what one bound
// pod holds, read from its annotation, which is trusted only as far as it cannot do harm. An Occupancy is the sum of
// the Helds of a node. It is always computed from the present pods and never updated. So nominated pods are added, and
// pods about to be preempted left out, like any other pod.
//
// # Deciding
//
// Decide checks the cheapest condition first: whether the node's policy contradicts the pod; whether the sums leave
// room (the rule is at Node.Surplus); and whether there are enough CPUs beside those promised to pods on unknown CPUs.
// Then it asks the allocator. Where CPUs stay empty beside the answer, Decide checks the sums again. The shared pool
// keeps one whole core: if an answer would use the last one, Decide holds out each core that could stay in turn, and
// chooses the best answer.
//
// Memory is bound to the NUMA nodes of a container's CPUs only where it is known to fit. Three amounts must leave a
// tenth of the memory of these nodes that is not huge pages: all memory bound to any of these nodes, the container's
// own, and all unbound memory that pods of the node request. Huge pages of each size are counted separately, to the
// last one; unbound huge pages may be in any node. A container without a memory bound may always use all nodes.
package placement
