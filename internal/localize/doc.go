// Package localize is the capability localize in the agent: it measures where the memory of
// the groups is that opted in, has package locality decide, and orders what is to move from a
// mover, which works beside it and whose reports it takes.
//
// A group is looked at every ten seconds, and every second while its CPUs settle or its pages
// move. Its CPUs count once they have been the same for ten seconds, whoever set them. A pass
// ends when the mover is done, or when the group gets other CPUs, another policy, or reaches
// its target. When the last pass of a pod has ended, the pod gets one event and its status
// annotation. What was done once is remembered in the checkpoint; a pass that an agent did not
// see the end of begins anew.
//
// It writes nothing to the host, and does not look at groups that did not opt in, but for how
// much of their memory limits those that are bound to a node have left.
//
// Files: groups.go is the whole, group.go one group, pod.go what a pod is told, host.go the
// NUMA nodes, report.go and reader.go what users see.
package localize
