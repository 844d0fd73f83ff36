// Package schedule is the plugin "Berth" of kube-scheduler: it gives pods that ask for exclusive CPUs a node and CPUs
// on it, and keeps all other pods off these CPUs. It imports the interfaces of the scheduling framework and nothing of
// k8s.io/kubernetes; the program is cmd/berth-scheduler.
//
// # What is free
//
// The free CPUs of a node are a function of the pods in the NodeInfo that the framework passes in, never a running
// total. The plugin reads each pod's placement from its annotation, once, and remembers it by UID, whatever the pod's
// keys are by now. A pod that asks for CPUs without a believable placement counts with as many unknown CPUs, if its
// namespace may have them. Completed pods count nothing. So hypothetical states of the framework are right by
// construction: nodes without the victims of a preemption, with nominated pods, with the first pods of a group. AddPod
// gives each nominated pod a trial placement in the cloned CycleState. A pod that is known not to have asked when it
// was bound holds nothing, whatever placement it has. Three things are added because no NodeInfo has them yet:
// reservations that are younger than the snapshot, the reserved placement of a pod that is assumed but not bound, and
// ambiguous binds.
//
// A pod that is resized counts with the largest of what it has, what it asks for and what the kubelet reports: the
// agent of its node chooses the CPUs, and its annotation follows. While the kubelet carries the resize out and the
// annotation has fewer CPUs, the node accepts no other pinned pod, since that pod might be given the same CPUs.
//
// After a restart, or a change of leader, the annotations of bound pods are the complete state; nothing else is stored.
//
// # One cycle
//
// PreFilter reads the pod once. Filter really chooses the CPUs on each node, with the allocator that Reserve, the agent
// and the command line use. Score ranks the nodes by the chosen CPUs. Reserve chooses again from the same state, with
// the same answer, and holds the CPUs. The race is lost if Reserve disagrees, because something changed in the
// meantime, or if Bind finds that another scheduler bound a pod to the CPUs or that the rule below is broken. The plugin counts lost races, and the pod
// is tried again after its backoff. Bind passes the placement in the annotations of the Binding, in one request, so
// that no kubelet ever sees the pod without it. It empties the placement that an ordinary pod brings.
//
// Answers are remembered by node and shape of the request, and found without a lock. They are valid for one generation
// of the NodeInfo, while nothing changes that the plugin itself knows. Generations are unique in a scheduler, clones
// included. Answers outlive a generation if their inputs are the same in the next one, as after a change of a pod's
// status. Altered clones are asked again, and their answers are not remembered. In the cycle of a pod group nodes
// change and keep their generation: there the number of pods and their requests are part of it, and Reserve and
// Unreserve forget the answers. Only what Filter needs for each node of a cluster is free of locks: the cycle, the node
// of a NodeInfo, its answers. All other lookups use a map with a lock.
//
// Score and Reserve, like Filter, see the pods of equal or higher priority that are nominated for a node, and leave
// them what was freed for them. If the pod has no room beside them, it is placed as if they were not there.
//
// # Best first
//
// PreFilter walks over the answers that all nodes remember and shows the framework only the best few nodes. It does so
// only if these answers, requests, taints and node selectors alone decide. The opinion of another team's plugin is
// unknown here, so a narrowed cycle can fail although a node would take the pod. Three things make that harmless. The
// pod is reported to the scheduling queue when its cycle begins, so that the queue tries it again, and from then on it
// sees all nodes. In the narrowed cycle Filter refuses every node from which a pod was removed, so preemption, which
// knows only the shown nodes, finds no candidate. After a failure the next pods see all nodes from the start.
//
// # Pods that share their CPUs
//
// One accounting rule limits the pods of each node. Add up, for each pinned container, the larger of its CPUs and its
// request, and for all other containers their requests. The sum stays within the node's allocatable, and within its
// CPUs that are online, not reserved and not isolated. Kube-scheduler knows only requests; a pinned pod with request 1
// and limit 4 hides three CPUs from it. Ordinary pods are compared with one number per node, and are otherwise left
// alone: they skip Score, and are bound as by any binder.
//
// On nodes where nothing hides CPUs, requests suffice, and NodeResourcesFit, which every profile needs, checks them.
// PreFilter itself checks the nodes that hide CPUs while these are few: ordinary pods that have room on all of them
// skip Filter. CPUs are hidden by:
//
//   - a bound pod that may get more than it requests, and a pending one on the node that it is nominated for;
//   - a record of such a pod that a snapshot may still have;
//   - an ambiguous bind;
//   - a node whose allocatable includes CPUs that run no containers;
//   - a pod that the API server showed bound when asked, until the informer shows it.
//
// Pods are looked up in the informer's store, which changes before any handler runs, so that it is never behind a
// snapshot. The framework knows a nomination before the store has it: it is asked for all nodes after each cycle of a
// pod that hides CPUs. The cycles of profiles without this plugin are not seen, so a pending pod of such a profile may
// be nominated for any node. The cycles of pod groups skip nothing. The answer, like the snapshot, is from the moment when the cycle
// began.
//
// Bind checks the rule again, for pinned and ordinary pods, because pods are bound and resized after the snapshot of the
// cycle. For that the plugin has a sum for each node: what its bound pods request, by the informer. Bind adds
// reservations, bindings that are being sent, and ambiguous binds, each pod once. If the sum leaves no room, Bind asks
// the informer's store before it refuses, since handlers may be behind it. A node whose size is not known refuses
// nothing.
//
// The rule holds for the pods that pass through this plugin:
//
//   - REPLACE: the scheduler also has a profile named default-scheduler, with
//     the plugin, and the cluster's own scheduler is switched off. The rule
//     applies to all pods.
//   - SIDE BY SIDE: the cluster's own scheduler schedules the pods that do
//     not name this one. It sees requests only, so pinned pods should request
//     what they get: requestBelowLimit deny enforces it.
//
// # When the API server does not answer
//
// A binding that fails with a timeout, a lost connection or a server error may have gone through. So may a binding that
// fails with a conflict, since an API server reports a timeout of its store in this way. Such a binding is an ambiguous
// bind. The scheduler forgets the pod. The plugin holds its CPUs until the API server shows the pod bound or gone, or
// still unbound when it can no longer be working on the request: 65 seconds after the error. So --request-timeout of
// the API server should not be above 60 seconds.
//
// At most 64 bindings of pinned pods have a turn; other pinned pods wait, and ordinary pods do not. Neither the framework
// nor the client bounds the time of a binding: one that hangs ends when the API server gives up the request, or the
// client finds the connection dead, which takes 30 seconds without a frame, and 15 without an answer to a ping. So a
// binding gives up its turn after 2 seconds.
//
// An ambiguous bind does not keep its own pod from the CPUs, and the pod is tried again: an API server binds a pod only
// once. Another try with the same CPUs and memory extends the ambiguous bind; any other try adds a second. Ordinary pods
// also have ambiguous binds, of their request, on nodes whose CPUs are known; there the plugin binds them itself. One
// case is not detected: the first try of a request timed out, the client sent the request again because the API server
// answered "try again later", and the last try failed for certain.
//
// The plugin forgets ambiguous binds when its process ends. An API server may carry out a binding after the scheduler
// that sent it was killed, with CPUs that the next scheduler gave away. The agent of the node then refuses the second
// pod.
//
// # Topologies and agents
//
// NodeTopologies come from an informer of the plugin. The start waits some seconds at most for its first list, and not
// at all if the type does not exist. Topologies are interned: nodes of the same build share one machine. A node is
// closed to pinned pods, and gives the reason, in four cases: it has no NodeTopology; its NodeTopology cannot be true;
// its agent did not renew its Lease for staleAfterSeconds; its condition Pinnable is not true. A closed node still
// accepts ordinary pods. When a node opens, the pods that were refused for this reason are tried again. If the type
// does not exist yet, the informer retries at least every half minute.
//
// The clock that measures the age of Leases stops while the API server does not answer. If no Lease was renewed for
// some seconds, the plugin lists all Leases, and any answer lets the clock continue.
//
// # Order of plugins
//
// In multiPoint, Berth belongs after the plugins of kube-scheduler. There Reserve runs after DynamicResources: it then
// prefers the NUMA nodes of the allocated devices (attribute resource.kubernetes.io/numaNode), and never requires them.
// Before that, Filter and Score count what each NUMA node has left of the devices that claims ask for, and never
// require those devices either. In bind, Berth belongs before DefaultBinder; otherwise pods are bound without their
// placement.
//
// # Fragmentation
//
// PostFilter asks some of the nodes that refuse a pod for lack of CPUs what exactly they lack. If a node has enough
// free CPUs, but in the wrong places, fragmentation is why the pod waits. The pod's condition PodScheduled then says
// how many CPUs are missing. If pods of that node may be moved, a search beside the cycles finds the fewest moves that
// would make room, and reports them as an event. Filter does none of this, so that pods which find a node pay nothing.
// If the profile sets sayFitsAfterRepack, Filter adds the number of moves that an earlier search found.
//
// # Metrics
//
// On kube-scheduler's /metrics:
//
//	berth_scheduler_decisions_total{result}    placements: "reserved" and "bound"
//	berth_scheduler_refusals_total{reason}     pods refused, once a cycle and reason: "topology",
//	                                           "cpus", "promised", "policy", "size", "rule", "cap", "race"
//	berth_scheduler_lost_races_total           lost races: decisions that were overtaken
//	berth_scheduler_ambiguous_binds_total      failed bindings: they may have gone through
//	berth_scheduler_overlaps_total             bound pods seen with CPUs of another bound pod
//	berth_scheduler_invalid_policies_total     pods with invalid keys
//	berth_scheduler_bypassed_total             pinned pods: bound by another binder
//	berth_scheduler_memo_lookups_total{result} answers: "hit" (remembered) and "miss"
//	berth_scheduler_narrowed_total{result}     pods shown some nodes only: "best" and "open"
//	berth_scheduler_fragmented_pods{constraint}
//	                                           pods that wait although a node has enough free CPUs:
//	                                           "cores", "l3", "numa", "exclusive", "pool"
//	berth_scheduler_fragmented_missing_cpus{constraint}
//	                                           CPUs that these pods lack in the right places
//	berth_scheduler_pods{state}                pods: "reserved", "ambiguous" (binds), "unknown", "waiting"
package schedule
