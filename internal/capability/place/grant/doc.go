// Package grant describes the exclusive CPUs of one pod: which CPUs each container has (a Part), with which memory
// nodes, and what that takes from all others. It is pure, and knows neither other pods nor running containers: package
// place compares the grants of a node.
//
// # Three ways to a grant
//
// Read reads a placement, the annotation, as a whole or not at all. The pod must ask, each CPU must be pinnable, and
// the number of CPUs must be the limit (a pod that was resized may have others). No two containers may have the same
// CPU, and the CPUs must be in the NUMA nodes of the placement. Read ignores the hash of the topology: these checks
// cover what matters of it. Of converts a decision of package placement. On uses parts that were found on a machine,
// whatever the limits now are.
//
// # Resizes
//
// A Refit finds CPUs for a pod whose limits changed, or that lost some: the pod keeps its CPUs as far as possible.
package grant
