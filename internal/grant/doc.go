// Package grant is what one pod has of exclusive CPUs: how many and which each container has (a
// Part), which memory nodes with them, and what that takes from all others. It is pure, and knows
// neither other pods nor containers that run: package place compares the grants of a node.
//
// # Three ways to a grant
//
// Read takes a placement, the annotation, as a whole or not at all: the pod asks, each CPU may be
// pinned, the number is the limit's (a pod that was resized may have others), no two containers
// have the same CPU, and the CPUs are in the NUMA nodes that it names. It ignores the hash of the
// topology: these checks cover what matters of it. Of takes a decision of package placement. On
// takes parts that were found on a machine, whatever the limits say by now.
//
// # Resizes
//
// A Refit finds CPUs for a pod whose limits changed, or that lost some: it keeps what it has as
// far as possible.
package grant
