// Package alloc decides which CPUs of one machine a pod gets. It is pure and
// deterministic: the scheduler, the agent and the commands get the same answer
// for the same machine, the same taken CPUs and the same request.
//
// # What is best
//
// Of all sets of free CPUs that the policies of a Request allow, the answer is
// the one with the best Vector: the fewest NUMA nodes, these with the
// memory that the pod needs, in few sockets and dies and near each other, then the fewest L3 domains, then whole cores (or many cores),
// then the tightest fit; of equals the one with the lowest CPUs. Compile says what can be given
// out at all, Hold what others hold, Allocate finds the answer or a Refusal, and
// Answer.Why says what it was judged by.
//
// Three words: a CPU is free if it can be given out and is not taken; it is
// eligible if the policies allow it for this pod; a core is wholly free if all
// its online threads are free, and split by an answer that has some of them.
//
// A core lies where its lowest thread does. CPUs in no node or L3 domain count
// as none: they add nothing to the number of these or to what stays free.
//
// # How it is found
//
// The search is exact. It does not look at sets of CPUs but at sets of domains.
//
//   - The least number of nodes follows from what each could contribute. A set
//     of that many nodes is touched as a whole by every answer within it (with
//     fewer, there would be a better one), so sockets, dies, distances and free
//     CPUs in nodes are known from the set. The same holds for the L3 domains within it.
//   - Nodes and L3 domains are therefore chosen by branch and bound. A partial
//     set is given up if even the best values of what is left (sums: the k
//     greatest capacities, the k least free counts …) make a vector that is no
//     better than the best so far.
//   - The sets of nodes with the best bounds are searched first, best first. Where
//     the answer is better than the next bound, no other set is looked at.
//   - If the bound is exactly the best, only a lower CPU list can win. Sets are
//     tried with low CPUs first, so the part of the list below the next domain
//     is decided: if even with all that is possible there it comes later, the
//     set is given up. Of nodes that are alike only the first ones are tried.
//     Both together take the ties out of symmetric machines.
//   - Within a pool of domains, the core terms follow from counts of cores
//     (wholly free, partly free, of one thread), and the lowest answer is picked
//     by taking the lowest of each sort. Where that does not hold (cores of
//     unlike numbers of threads, of which some have more than two; more than
//     eight threads; CPUs outside of nodes or L3 domains; broken tables), a
//     knapsack over the cores that carries the sets themselves does both.
//
// A machine of eight nodes with four L3 domains each rarely needs more than a few
// thousand steps. Many nodes or L3 domains that are fragmented in unlike ways,
// and the knapsack on many of their sets, can be more than anyone can look at:
// after a budget of work, about a millisecond, the best so far is the answer,
// and Exact is false. That happens from some ten nodes or L3 domains a node on,
// and to few requests; Compile takes no machine of more than 64 nodes.
//
// # Several containers
//
// The policies hold for the union. It is found first; then the largest container
// gets the best part of it, as if the union were all the free CPUs of the
// machine, then the next one of what is left. Where that tears containers between
// NUMA nodes or L3 domains, they choose in the same way among all CPUs of the
// union's nodes instead, if that tears fewer and the nodes stay as good.
//
// With DistributeEvenly an answer in several nodes is divided anew among these:
// core by core, each to the node that has the least so far.
//
// # Pods that keep others out
//
// What a pod was granted binds all pods after it. PCPULevel takes the empty
// siblings. NUMANodeLevel closes its nodes to pinned pods. NUMA exclusivity
// keeps pods inside one node and pods across nodes off each other; a pod never
// crosses nodes to avoid that, only because no single node could hold it.
package alloc
