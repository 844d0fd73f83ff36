// Package place decides which containers of this node have which CPUs. It is
// pure: a Node holds what it was told about pods and containers, and what it
// decided; it reads no clock, no host and no API. Asked, it says who has which
// CPUs and memory nodes, whose quota is lifted, what everybody else may use (the
// shared pool), and what there is to tell people.
//
// # Who has what
//
// A pod that asks for CPUs of its own (workload.Pinning) has a claim: what it was
// granted before; else what its containers are found running on, if Berth gave
// it to them; else its placement, the annotation. A placement is followed if it
// can be believed as a whole: the pod asks, each CPU may be pinned, the number is
// the limit's (a pod that was resized may have fewer), no two containers have the
// same CPU, and the CPUs are in the NUMA nodes that it names. The hash of the
// topology is not looked at: what matters of it is in these. The memory nodes that it
// names are followed where the pod's memory is known to fit, by placement's rule and
// all pods of this node; else the container may use all nodes, and that is written
// into the annotation.
//
// Claims are compared in one order: a container that runs on its CPUs before one
// that does not; then the pod that was scheduled earlier; then the lower UID; and
// provisional pods last, since nobody knows when they were scheduled. A
// claim stands if nobody before it has any of its CPUs (or keeps them empty), and
// if a whole core is left to the shared pool. Only when all claims are compared,
// those that lost and pods without any are placed by placement.Decide on what is
// left, so that nobody who needs other CPUs takes what somebody has. What was
// decided is kept as a grant, to be written into the annotation, until the pod
// loses it to one before it, is complete, or is gone and none of its containers
// runs: through restarts, crash loops, and while the API server is away.
//
// So a CPU is never two pods' own, whoever wrote which annotation, and a
// container that runs on its CPUs is never moved unless another one runs there
// too, or the CPUs go.
//
// # Provisional pods
//
// The runtime may make a container of a pod that nobody else told of yet. What it
// knows is put as a provisional pod: which containers there are, what they are and
// how many CPUs they are to have is guessed. Such a pod is placed like others, but
// nothing of it is told and its annotation is not touched. Once the pod itself is
// put, everything is read anew and the guess is forgotten, but for app containers
// and sidecars that are to have CPUs of their own and run on those that they were
// given: they keep them, and the rest of the pod goes by its placement, or is placed
// beside them. A provisional pod never replaces what is known of the pod itself.
//
// # Pods that get none
//
// A pod that asks and has no room runs in the shared pool, unless it Required it:
// then Create refuses its containers (all but ephemeral ones), and the kubelet
// asks again. A pod requires it whose own annotation has a required bind policy,
// a required exclusivity, a required exclusive NUMA node, or the NUMA policy
// Restricted or SingleNUMANode. Whatever Decide says no for then counts, be it
// the policy or the sums. What the node's administrator requires makes no pod
// wait; nor does what Berth cannot do at all: static-burst, a runtime handler
// that starts a virtual machine, and a node where it may not write. What a pod was
// granted before it was Excluded it keeps while one of its containers runs on it.
// A pod without room is looked at again when one of its containers is created, when
// its limits change, and when the facts do, and at no other time: a container that
// runs in the pool is not moved because somebody else ended.
//
// The CPUs of a pod that is complete or was deleted by force are free to the scheduler,
// and held here until the runtime is through with it. The next pod that is given them
// comes too early by seconds. If it has no room elsewhere, had it as soon as the other
// has left, and none of its containers was made, nothing is told and its placement
// stands: Create refuses its containers, required or not, and the kubelet asks again.
// Half a minute after the first time it is treated as one that has no room.
//
// # The shared pool
//
// It is what is online, neither reserved nor isolated, and no pod's own, siblings
// that stay empty included. As soon as one pod has a grant, every container
// without CPUs of its own has a wish for the pool, and none any more when the
// last grant ends: then it gets back what it had. That is before the pod's first
// container is created, since direct writes are cheap and updates by way of the
// runtime are not; Create names those that still have too much. Class SYSTEM has
// the reserved CPUs as well. Init containers have what the app containers of the
// pod have together, sidecars their own; the sandbox and ephemeral containers are
// in the pool.
//
// The pool is overcommitted when what its pods and containers request exceeds its
// CPUs; class SYSTEM does not count. That is told when it begins.
//
// # Changes
//
// Limits count when Resize says so. A container then keeps the CPUs it has: it
// gets some besides, or keeps the best of them. One that cannot have more keeps
// what it has. A CPU that goes offline (or is reserved) is replaced in the same
// way; where none can be added the pod is placed anew, and where that fails too
// it keeps what is left. The keys that ask are read once, and so is the placement, of
// any pod that is not provisional.
//
// While Facts.Pinnable is false there are no wishes at all, which does not mean
// that anything is to be put back: somebody else writes CPU sets.
package place
