// Package repack finds the fewest moves of pods on one node after which there is room: for
// a pod that waits because of fragmentation, or for whole L3 domains. It plans only, and is
// pure: the same node gives the same plan. Package relocation has a plan carried out, by the agent
// of the node, where package place says whether each move is possible still.
//
// # A move
//
// A move gives one pod other CPUs of its node, as many as it has. Only pods that opted in
// move (Node.Pods). A pod is never worse off than it was at first: not in more NUMA nodes,
// sockets or L3 domains, not on more cores that it holds partly, not farther from its memory
// or devices, and it gives up no preference that it had. All that it requires holds, and a
// whole core stays with the shared pool. Moves come one after the other, and the CPUs of
// each are free when it begins, except those that the pod itself keeps.
//
// # The search
//
// The search is exact: it looks at all plans of one move, then at all of two, and so on.
// Cores of one L3 domain and NUMA node that have as many free CPUs, beside CPUs of the same
// pods, are interchangeable, and so are the free CPUs of a core, so of each kind only the
// first ones are tried. On a large node it may end before it has seen all plans (Bounds.Looks).
// Then it says that it does not know.
package repack
