// Package localize is the capability localize in the agent. It measures where the memory of the groups that opted in
// is, and package locality decides what should move. It orders passes from a mover, which works concurrently, and reads
// the mover's reports.
//
// A group is checked every ten seconds, and every second while its CPUs changed recently or its pages move. Its CPUs
// are used once they have been the same for ten seconds, no matter who set them. A pass ends when the mover is done,
// when the group gets other CPUs or another policy, or when the group reaches its target. When the last pass of a pod
// has ended, the pod gets one event and its status annotation. The checkpoint remembers what was done once; a pass
// whose end an agent did not see begins again.
//
// localize writes nothing to the host, and does not read groups that did not opt in. The exception is how much memory
// the limits of groups that are bound to a node have left.
//
// Files: groups.go has all groups, group.go one group, pod.go the reports to a pod, host.go the NUMA nodes, report.go
// and reader.go the output for users.
package localize
