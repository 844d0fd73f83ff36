// Package repack finds the fewest moves of pods on one node that make room for a pod that waits because of
// fragmentation, or for whole L3 domains. It plans only, and is pure: the same node gives the same plan. Package
// relocation has the node's agent carry out a plan; there, package place decides whether each move is still possible.
//
// # A move
//
// A move gives one pod other CPUs of its node, as many as it has. Only pods that opted in move (Node.Pods). A pod is
// never worse off than at first: it does not get more NUMA nodes, sockets or L3 domains, or more cores that it holds
// partly. It is not farther from its memory or devices, and gives up no preference that it had. All its requirements
// are met, and a whole core stays with the shared pool. Moves come one after the other, and the CPUs of each are free
// when it begins, except CPUs that the pod itself keeps.
//
// # The search
//
// The search is exact: it tries all plans of one move, then all of two, and so on. Cores of one L3 domain and NUMA node
// are interchangeable if they have equally many free CPUs, and equally many CPUs of each pod. So are the free CPUs of a
// core. The search therefore tries only the first of each kind. On a large node it may end before it has tried all
// plans (Bounds.Looks). Then it says that it does not know.
package repack
