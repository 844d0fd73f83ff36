// Package schedule is the plugin "Berth" of kube-scheduler: it gives pods that ask
// for exclusive CPUs a node and, on it, the CPUs, and keeps all other pods off what
// was given out. It imports the interfaces of the scheduling
// framework and nothing of k8s.io/kubernetes; the program is
// cmd/berth-scheduler.
//
// # What is free
//
// What a node has to give is a function of the pods in the NodeInfo that the
// framework passes in, never a running total: each pod's placement is read from
// its annotation (once, and kept by UID), whatever the pod's keys say by now; one
// that asks and has no believable placement counts with as many unknown CPUs, if
// its namespace may have them; completed ones count nothing. So what the framework
// imagines is right by construction: nodes without the victims of a preemption,
// with nominated pods (AddPod gives each a trial placement in the cloned
// CycleState), with the first pods of a group. A pod that is seen not to have asked when
// it was bound holds nothing, whatever placement it has. Three things come on top, because
// no NodeInfo has them yet: reservations that are younger than the snapshot, the
// reserved placement of a pod that is assumed but not bound, and ambiguous binds.
//
// A pod that is resized counts with the largest of what it has, what it asks for and what
// the kubelet reports: the agent of its node chooses the CPUs, and its annotation follows.
// As long as the kubelet carries the resize out and the annotation says fewer, the node takes
// no other pinned pod, since that might be given the same CPUs.
//
// After a restart, or a change of leader, the annotations of bound pods say it
// all; nothing else is kept anywhere.
//
// # One cycle
//
// PreFilter reads the pod once. Filter really chooses the CPUs on each node,
// with the allocator that Reserve, the agent and the command line use; Score
// ranks the nodes by what was chosen; Reserve chooses again from the same
// state, with the same answer, and holds the CPUs. If it does not agree, because
// something changed meanwhile, or if Bind finds the CPUs with a pod that another
// scheduler bound since, the race is lost: the plugin counts it, and the pod is tried
// again after its backoff.
// Bind hands the placement over in the annotations of the Binding, one request,
// so that no kubelet ever sees the pod without it, and empties that of an ordinary
// pod which brings one.
//
// Answers are remembered by node and shape of the request, and found without a
// lock, for one generation of the NodeInfo and while nothing changes that the plugin
// knows itself: generations are unique in a scheduler, also those of clones. They
// outlive a generation where what they were worked out from is the same in the next
// one, as after a change of a pod's status. Clones that were
// altered are asked anew and not remembered. In the cycle of a pod group nodes
// change and keep their generation: there the number of pods and their requests
// belong to it, and Reserve and Unreserve forget.
// Lock-free is only what Filter asks for each node of a cluster: the cycle, the node of a
// NodeInfo, its answers. All that is looked up less often is a map behind a lock.
//
// Score and Reserve see the pods of equal or higher priority that are nominated
// for a node, like Filter: what was freed for those is not taken from them. Only
// where the pod finds no room beside them it is placed as if they were not there.
//
// # Best first
//
// PreFilter walks over the answers that all nodes remember and lets the framework look
// at the best few only, where nothing else than these answers, requests, taints and node
// selectors decides. What a plugin of another team says is not known here, so a narrowed
// cycle can fail though a node would take the pod. Three things keep that harmless. The
// pod is reported to the scheduling queue when its cycle begins, so that the queue tries
// it again, and from then on it sees all nodes. In the narrowed cycle Filter refuses
// every node from which a pod was taken away: preemption, which knows only the nodes
// that were shown, finds no candidate. And after a failure the next pods see all nodes
// from the start.
//
// # Pods that share their CPUs
//
// For every pod, of whatever kind: the sum over pinned containers of the larger
// of what they have and what they request, plus all other requests, stays within
// the node's allocatable and within its CPUs that are online, not reserved and
// not isolated. Kube-scheduler knows only requests; a pinned pod with request 1
// and limit 4 hides three CPUs from it. Ordinary pods are compared with one
// number a node, and are otherwise left alone: they skip Score, and are bound as
// by any binder.
//
// Where nothing hides CPUs, requests say it all, and NodeResourcesFit, which every
// profile needs, has looked at those. PreFilter looks at the other nodes itself
// while these are few: ordinary pods that have room on all of them skip Filter.
// What hides CPUs is a pod, pending or bound, that may get more
// than it requests; a record of such a one that a snapshot may still have; an
// ambiguous bind; a node that offers more than runs containers; a pod that the API server
// showed bound when it was asked, as long as the informer does not. Pods are
// looked for in the informer's store, which changes before any handler runs, so
// that it is never behind a snapshot. The cycles of pod groups skip nothing. The
// answer is that of the moment in which the cycle began, as the snapshot is.
//
// The rule holds for the pods that pass through this plugin:
//
//   - REPLACE: the scheduler also has a profile named default-scheduler, with
//     the plugin, and the cluster's own scheduler is switched off. The rule holds
//     for all pods.
//   - SIDE BY SIDE: the cluster's own scheduler goes on with the pods that do
//     not name this one. It sees requests only, so pinned pods should request
//     what they get: requestBelowLimit deny insists on it.
//
// # When the API server does not answer
//
// A binding that fails with a timeout, a lost connection or a server error may
// have gone through. A conflict too, since that is how an API server reports
// what its store did not answer in time. Such a binding is an ambiguous bind. The
// scheduler forgets the pod; the plugin holds its CPUs until the API server shows
// the pod bound or gone, or still unbound when it can no longer be working on the
// request: 65 seconds after the error. So --request-timeout of the API server should
// not be above 60 seconds.
//
// An ambiguous bind does not keep its own pod from the CPUs, and the pod is tried
// again: an API server binds a pod only once. A try that was to take the same CPUs
// makes the ambiguous bind last longer, one with others leaves a second. Ordinary pods
// have ambiguous binds too, of their request, on nodes whose CPUs are known; there the
// plugin binds them itself. (Not seen is a request that the client repeated after an
// answer of "later", of which the first try timed out and the last one failed for
// sure.)
//
// The plugin forgets ambiguous binds when its process ends: a binding that an API
// server carries out after the scheduler that sent it was killed may meet CPUs that
// the next one gave away. The agent of the node then refuses the second of the two.
//
// # Topologies and agents
//
// NodeTopologies come from an informer of the plugin's own, for whose first list
// the start waits some seconds at most, and not where the type does not exist;
// they are interned: nodes of the same build share one machine. A node
// without one, with one that cannot be true, whose agent did not renew its Lease
// for staleAfterSeconds, or whose condition Pinnable says no takes ordinary
// pods as ever and says to others why it does not take them. When that changes,
// exactly the pods that were refused for it are tried again. If the type does
// not exist yet, the informer looks again at least every half minute.
//
// The time by which a Lease grows old stands still while the API server does not
// answer: where no Lease is heard of for some seconds the plugin asks for all of
// them, and an answer, whatever it shows, lets the time go on.
//
// # Order of plugins
//
// Berth belongs into multiPoint after the plugins of kube-scheduler, where
// Reserve runs after DynamicResources: it then prefers the NUMA nodes of the
// devices that were allocated (attribute resource.kubernetes.io/numaNode), and
// never requires them. Before that, Filter and Score count what each NUMA node has left of
// the devices that claims ask for, and never require those either. In bind it belongs before DefaultBinder, else pods are
// bound without their placement.
//
// # Fragmentation
//
// PostFilter asks some of the nodes that refuse a pod for its CPUs once more, with figures:
// a node with enough free CPUs in the wrong places is why the pod waits, and how many are
// missing is in the pod's condition PodScheduled. Where pods there may be moved, a search
// beside the cycles looks for the fewest moves that would make room, and reports them as an
// event. Filter does none of this, so that pods which find a node pay nothing; where the profile
// wants it, it repeats what a search found for the answer that it remembers.
//
// # Metrics
//
// On kube-scheduler's /metrics:
//
//	berth_scheduler_decisions_total{result}    placements, "reserved" and "bound"
//	berth_scheduler_refusals_total{reason}     pods refused, once a cycle and reason: "topology",
//	                                           "cpus", "promised", "policy", "size", "rule", "cap", "race"
//	berth_scheduler_lost_races_total           decisions that were overtaken
//	berth_scheduler_ambiguous_binds_total      bindings that may have gone through
//	berth_scheduler_overlaps_total             bound pods seen with CPUs of another bound pod
//	berth_scheduler_invalid_policies_total     pods whose keys cannot be read
//	berth_scheduler_bypassed_total             pinned pods that another binder took
//	berth_scheduler_memo_lookups_total{result} answers, "hit" (remembered) and "miss"
//	berth_scheduler_narrowed_total{result}     pods shown some nodes only, "best" and "open"
//	berth_scheduler_fragmented_pods{constraint}
//	                                           pods that wait although a node has enough free CPUs:
//	                                           "cores", "l3", "numa", "exclusive", "pool"
//	berth_scheduler_fragmented_missing_cpus{constraint}
//	                                           what they lack where they need it
//	berth_scheduler_pods{state}                "reserved", "ambiguous" (binds), "unknown", "waiting"
package schedule
