// Package place decides which containers of this node have which CPUs. It is
// pure: a Node holds the pods and containers that it was given, and what it
// decided; it reads no clock, no host and no API. Its answers are desired values
// (CPUs and memory nodes of every container, and which quota is unlimited), the
// shared pool, and the events to report.
//
// # Which pod has which CPUs
//
// A pod that asks for exclusive CPUs (workload.Pinning) has a claim: what it was
// granted before; else what its containers are found running on, if Berth gave
// it to them; else its placement, the annotation, as a whole or not at all (package
// grant). The Node follows the memory nodes
// that the placement names where the pod's memory is known to fit, by placement's rule
// and all pods of this node; else the container may use all nodes, and the annotation
// will say so.
//
// The Node compares claims in one order: a container that runs on its CPUs before one
// that does not; then the pod that was scheduled earlier; then the lower UID; and last
// the pods of which it is not known when they were scheduled: provisional ones, and those that
// were gone before the agent began. A claim
// stands if no claim before it has any of its CPUs (or keeps them empty), and if a
// whole core is left to the shared pool. Only then placement.Decide places the pods
// that lost, and those without a claim, on what is left, so that a pod that needs
// other CPUs never takes those of another pod. The decision is kept as a grant, to be
// written into the annotation, until the pod loses it to a claim before it, is
// complete, or is gone and none of its containers runs: through restarts, crash loops,
// and while the API server is away.
//
// So a CPU is never exclusive to two pods, whatever their annotations say, and a
// container that runs on its CPUs is never moved unless another one runs there
// too, or the CPUs go.
//
// # Provisional pods
//
// The runtime may make a container of a pod that neither the API server nor the
// kubelet has reported yet. What the runtime knows is put as a provisional pod: which
// containers there are, what they are and how many CPUs they should have is a guess.
// The Node places such a pod like others, but reports no event of it and does not
// write its annotation. Once the pod itself is put, the Node reads everything anew and
// forgets the guess, but for app containers and sidecars that should have exclusive
// CPUs and run on those that they were given: they keep them, and the rest of the pod
// goes by its placement, or is placed beside them. A provisional pod never replaces
// the pod itself.
//
// # Pods that get none
//
// A pod that asks and has no room runs in the shared pool, unless it requires them:
// then Create refuses its containers (all but ephemeral ones), and the kubelet
// tries again. A pod requires it whose own annotation has a required bind policy,
// a required exclusivity, a required exclusive NUMA node, or the NUMA policy
// Restricted or SingleNUMANode. Every refusal of Decide counts then, be it for the
// policy or for the sums, and so does a rule of the administrator that excludes the
// pod from more than it has. What the node's administrator requires makes no pod
// wait; nor does what Berth cannot do at all: a runtime handler
// that starts a virtual machine, and a node where it may not write. What a pod was
// granted before it was Excluded it keeps while one of its containers runs on it, or until
// it ends, as the Exclusion says.
// The Node reconsiders a pod without exclusive CPUs when one of its containers is created,
// when its limits change, and when the facts do, and at no other time: a container that
// runs in the pool is not moved because another pod ended.
//
// The CPUs of a pod that is complete or was deleted by force are free to the scheduler,
// and held here until the runtime has stopped it. The next pod that the scheduler gives
// them comes too early by seconds. If it has no room elsewhere, would have it as soon as
// the other has left, and none of its containers was made, the Node reports nothing and
// its placement stands: Create refuses its containers, required or not, and the kubelet
// tries again. Half a minute after the first time the pod is treated as one without room.
//
// # The shared pool
//
// It is what is online, neither reserved nor isolated, nor exclusive to a pod, siblings
// that stay empty included. As soon as one pod has a grant, every container without
// exclusive CPUs shrinks to the pool, and gets back what it had when the last grant
// ends. That is before the pod's first container is created, since direct writes are
// cheap and updates by way of the runtime are not; Create names those that still have
// too much. Class SYSTEM has
// the reserved CPUs as well. Init containers have what the app containers of the
// pod have together, sidecars their own; the sandbox and ephemeral containers are
// in the pool.
//
// The pool is overcommitted when what its pods and containers request exceeds its
// CPUs; class SYSTEM does not count. An event reports when that begins.
//
// # Borrowed CPUs
//
// A pod with static-burst has its limit reserved, rounded up: CPUs that are its alone, by the
// same rules. It keeps its quotas. Beside them it may borrow CPUs of its domain, of the cores that
// lie in the shared pool as a whole. They stay in the pool. How wide it may be, and when to
// choose, Lend is told; package lending has the law of both.
//
// Every decision takes back what borrowers have of a core that is not in the pool as a whole any
// more. So the answer that gives a pod its CPUs names the borrowers that leave them, and which
// CPUs are reserved never depends on what is borrowed. An init container borrows nothing, nor
// does a provisional pod, or one that is gone and whose keys are not known. Of a container that ran
// before the Node knew it, what is reserved is what its placement names, and without one what no
// other container has.
//
// # Changes
//
// New limits count when Resize says so, or once the kubelet has carried them out. A
// container then keeps the CPUs it has: it gets some besides, or keeps those of them that it
// had first, else the best. Where the node cannot follow, the pod keeps what it has, and the
// event says so in the kubelet's words: Infeasible is a resize that the empty node could not
// follow either, Deferred one that the Node tries again whenever the CPUs or the requests of
// the other pods have changed. A CPU that goes offline (or is reserved) is replaced in the same
// way; where none can be added the pod is placed anew, and where that fails too
// it keeps what is left. The keys that ask are read once, and so is the placement, of
// any pod that is not provisional.
//
// # Moves
//
// A pod with the annotation berth.dev/movable may be asked to have other CPUs while it runs, by
// the annotation berth.dev/move: from those that it has, to as many others. The Node follows where
// the pod has the former (or, after a restart in the middle, some of both), no other pod has the
// latter, the pod is no worse off there, and a whole core stays with the shared pool beside both.
// Else it reports why not, and the pod keeps what it has. One move is under way at a time, and
// none begins in an answer to the runtime.
//
// The pod has both sets until every container was seen to have left the CPUs from before: no
// other pod is given any of them, and the shared pool has neither. Its memory nodes become those
// of before and after, since its pages stay where they are. The move is reported as over once the
// pod is back to one set and its annotation says which. So nothing of a move has to be remembered:
// a Node that is made anew finds the containers here or there, and what is asked for. Where it
// finds some of both it goes on, also with a move that was withdrawn, or back where others have
// the new CPUs. A move that is withdrawn before a container was seen on them goes back, too.
//
// While Facts.Pinnable is false the Node desires nothing at all, which does not mean
// that the agent puts anything back: another program writes CPU sets.
package place
