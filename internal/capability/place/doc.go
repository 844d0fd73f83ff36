// Package place decides which containers of this node have which CPUs. It is pure: a Node remembers the pods and
// containers that were reported and its own decisions, and reads no clock, no host and no API. It returns desired
// values (CPUs and memory nodes of every container, and which quotas are unlimited), the shared pool, and the events to
// report.
//
// # Which pod has which CPUs
//
// A pod that asks for exclusive CPUs (workload.Pinning) has a claim. The claim is its previous grant; else the CPUs
// that its containers are found running on, if Berth gave them to it; else its placement, the annotation, as a whole or
// not at all (package grant). The Node uses the memory nodes of the placement where the pod's memory is known to fit,
// by the rule of package placement and counting all pods of this node. Otherwise the container may use all nodes, and
// the annotation will say so.
//
// The Node compares claims in one order. Containers that run on their CPUs come first; then the pod that was scheduled
// earlier; then the lower UID. Pods with an unknown scheduling time come last: provisional pods, and pods that were
// gone before the agent began. A claim is valid if no earlier claim has any of its CPUs (or keeps them empty), and if a
// whole core remains for the shared pool. After that, placement.Decide places the pods that lost and the pods without a
// claim on the remaining CPUs, so that such a pod never gets CPUs of another pod. The Node remembers the decision as a
// grant, to be written into the annotation. A grant survives restarts, crash loops, and an unavailable API server. It
// ends when an earlier claim has its CPUs, or when the pod is complete or gone and none of its containers runs.
//
// So a CPU is never exclusive to two pods, whatever their annotations say. A container that runs on its CPUs is never
// moved unless another container runs there too, or the CPUs disappear.
//
// # Provisional pods
//
// The runtime may create a container of a pod that neither the API server nor the kubelet has reported yet. The pod is
// then put as a provisional pod, with the runtime's data: its containers, their kinds and their numbers of CPUs are a
// guess. The Node places a provisional pod like others, but reports no event about it and does not write its
// annotation. Once the pod itself is put, the Node reads everything again and forgets the guess, with one exception:
// app containers and sidecars that should have exclusive CPUs and run on the CPUs of the guess keep them. The other
// containers use the placement, or are placed beside them. A provisional pod never replaces the pod itself.
//
// # Pods without exclusive CPUs
//
// A pod that asks and has no room runs in the shared pool, unless it requires exclusive CPUs: then Create refuses its
// containers (all but ephemeral ones), and the kubelet tries again. A pod requires exclusive CPUs if its own annotation
// has a required bind policy, a required exclusivity, a required exclusive NUMA node, or the NUMA policy Restricted or
// SingleNUMANode. Then the pod waits after every refusal of Decide, be it for the policy or for the sums, and after an
// administrator's rule that lets it have no further CPUs. Requirements of the node's administrator make no pod wait.
// The same is true for what Berth cannot do at all: a runtime handler that starts a virtual machine, and a node where
// Berth may not write. A pod that becomes Excluded keeps an earlier grant while one of its containers runs on it, or
// until the pod ends, as the Exclusion says. The Node reconsiders a pod without exclusive CPUs only when one of its
// containers is created, its limits change, or the facts change: a container in the pool is not moved because another
// pod ended.
//
// The scheduler sees the CPUs of a pod that is complete or was deleted by force as free, but the Node holds them until
// the runtime has stopped the pod. The next pod that the scheduler places there arrives seconds too early. If that pod
// has no room elsewhere, will have room once the other pod has left, and has no containers yet, the Node reports
// nothing. The pod's placement then remains valid. Create refuses its containers, required or not, and the kubelet
// tries again. Half a minute after the first refusal, the Node treats the pod as one without room.
//
// # The shared pool
//
// The shared pool is every CPU that is online, neither reserved nor isolated, and not exclusive to a pod. Siblings that
// stay empty are not in the pool either. As soon as one pod has a grant, every container without exclusive CPUs shrinks
// to the pool; it gets its earlier CPUs back when the last grant ends. The containers shrink before the pod's first
// container is created, since direct writes are cheap and updates through the runtime are not: Create returns the
// containers that still have too many CPUs. Class SYSTEM also has the reserved CPUs. Init containers have the CPUs of
// all app containers of the pod together, sidecars their own; the sandbox and ephemeral containers are in the pool.
//
// The pool is overcommitted when the requests of its pods and containers exceed its CPUs; class SYSTEM does not count.
// An event reports when that begins.
//
// # Borrowed CPUs
//
// A pod with static-burst has its limit, rounded up, reserved by the same rules: these CPUs are its alone. The pod
// keeps its quotas. It may also borrow CPUs of its domain, from cores that lie wholly in the shared pool; these CPUs
// stay in the pool. The caller of Lend says how many CPUs the pod may have and when to choose; package lending has the
// rules for both.
//
// Every decision takes back the borrowed CPUs of a core that is no longer wholly in the pool. So the answer that gives
// a pod its CPUs includes the borrowers that leave them, and borrowing never affects which CPUs are reserved. An init
// container borrows nothing, nor does a provisional pod, or a pod that is gone and whose keys are not known. For a
// container that ran before the Node knew it, the CPUs of its placement are reserved, or without a placement the CPUs
// that no other container has.
//
// # Changes
//
// New limits take effect when Resize is called, or once the kubelet has carried them out. A container that grows keeps
// its CPUs and gets more; a container that shrinks keeps the CPUs that it had first, else the best ones. Where the node
// cannot follow, the pod keeps what it has, and the event says so in the kubelet's words. Infeasible is a resize that
// the empty node could not follow either. Deferred is a resize that the Node tries again whenever the CPUs or the
// requests of the other pods have changed. A CPU that goes offline (or is reserved) is replaced in the same way. Where
// none can be added the pod is placed again; where that fails too it keeps the remaining CPUs. The Node reads the keys
// that ask, and the placement, only once for a pod that is not provisional.
//
// # Moves
//
// A running pod with the annotation berth.dev/movable may be asked, by the annotation berth.dev/move, to move from its
// CPUs to as many other CPUs. The Node moves the pod if it has the old CPUs (or, after a restart in the middle, some of
// both) and no other pod has the new CPUs. The pod must also be no worse off there, and a whole core must remain for
// the shared pool beside both sets. Otherwise the Node reports the reason, and the pod keeps its CPUs. One move is
// under way at a time, and none begins in an answer to the runtime.
//
// The pod has both sets until every container was seen to have left the old CPUs: no other pod is given any of them,
// and the shared pool has neither. Its memory nodes become those of both sets, since its pages stay where they are. The
// Node reports the end of the move once the pod has one set again and its annotation says which. So nothing of a move
// has to be remembered: after a restart, a new Node finds the containers on either set, and the request. If it finds
// some CPUs of both sets, it continues the move, even a withdrawn one, or goes back where other pods have the new CPUs.
// A move that is withdrawn before a container was seen on the new CPUs goes back, too.
//
// While Facts.Pinnable is false the Node desires nothing at all. The agent does not restore anything then: another
// program writes CPU sets.
package place
