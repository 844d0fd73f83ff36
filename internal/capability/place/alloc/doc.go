// Package alloc decides which CPUs of one machine a pod gets. It is pure and deterministic: the scheduler, the agent
// and the commands get the same answer for the same machine, the same taken CPUs and the same request.
//
// # What is best
//
// The answer is the set of free CPUs with the best Vector, among all sets that the policies of a Request allow. The
// best Vector has, in this order:
//
//   - the fewest NUMA nodes, and nodes that have the devices, then the memory, that the pod needs, in few sockets and
//     dies and near each other;
//   - the fewest L3 domains;
//   - whole cores (or many cores);
//   - the tightest fit.
//
// Among equal answers, the one with the lowest CPUs wins. Compile determines which CPUs can be given out at all, Hold
// records what other pods hold, Allocate returns the answer or a Refusal, and Answer.Why explains the answer.
//
// Three terms: a CPU is free if it can be given out and is not taken. It is eligible if the policies allow it for this
// pod. A core is wholly free if all its online threads are free, and split by an answer that has some of its threads.
//
// A core belongs to the domains of its lowest thread. CPUs in no node or L3 domain add nothing to the number of
// touched domains or to the CPUs that stay free.
//
// # How it is found
//
// The search is exact. It does not enumerate sets of CPUs but sets of domains.
//
//   - The least number of nodes follows from what each node could contribute. Every answer within a set of that many
//     nodes touches all of them: an answer in fewer nodes would be better. Sockets, dies, distances and free CPUs in
//     nodes are therefore known from the set. The same is true of the L3 domains within it.
//   - Nodes and L3 domains are therefore chosen by branch and bound. The bound of a partial set uses the best values
//     of the remaining domains (sums: the k greatest capacities, the k least free counts …). The search gives up the
//     set if this vector is no better than the best answer so far.
//   - The search begins with the sets of nodes that have the best bounds, best first. If an answer is better than the
//     next bound, the search is complete.
//   - If the bound equals the best answer, only a lower CPU list can win. The search tries sets with low CPUs first,
//     so the part of the list below the next domain is decided. It gives up the set if the list comes later even with
//     every possible CPU. Among equal nodes it tries only the first ones. Both rules together remove the ties of
//     symmetric machines.
//   - Within a pool of domains, the core terms follow from counts of cores (wholly free, partly free, of one thread).
//     The lowest answer has the lowest cores of each sort. Where this is not true, a knapsack over the cores, which
//     carries the sets themselves, replaces both. The causes are cores of unequal numbers of threads (some with more
//     than two), cores of more than eight threads, CPUs outside nodes or L3 domains, and broken tables.
//
// A machine of eight nodes with four L3 domains each rarely needs more than a few thousand steps. The search can be
// too large for many nodes or L3 domains that are fragmented in different ways, and for the knapsack on many of their
// sets. After a budget of work, about a millisecond, the best answer so far is returned, and Exact is false. That
// happens from about ten nodes, or ten L3 domains per node, and to few requests. Compile accepts no machine of more
// than 64 nodes.
//
// Each step is a type that owns the next. problem is what is asked, eligible what the machine has for it. nodeSearch
// chooses NUMA nodes, and its ranks bound them; its l3Search chooses L3 domains, and has a picker and a table for the
// CPUs. All of them share one search: the best answer so far, and the budget. Scratch has them in its fields, and makes
// the decision: which preferences to insist on, how many nodes, one domain or any, and which container gets which part.
//
// # Several containers
//
// The policies apply to the union of the containers, which is found first. Then the largest container gets the best
// part of the union, as if the union were all the free CPUs of the machine. The next container gets the best part of
// the remaining CPUs. If that splits containers across NUMA nodes or L3 domains, they choose in the same way among all
// CPUs of the union's nodes. That second division is used if the containers are then in fewer domains and the nodes
// stay as good. If containers are still split across L3 domains, each gets the best CPUs of one domain, if there are
// such domains. A later division is not used if it has no CPU in a node of Span where the earlier one has
// some.
//
// With DistributeEvenly, an answer in several nodes is divided again among these nodes: core by core, each to the node
// that has the least so far.
//
// # Pods that exclude others
//
// What a pod was granted binds all later pods. PCPULevel occupies the empty siblings. NUMANodeLevel closes its nodes
// to pinned pods. NUMA exclusivity separates the nodes of pods inside one node from the nodes of pods across nodes. A
// pod never crosses nodes to avoid an exclusive pod, only because no single node could hold it.
package alloc
