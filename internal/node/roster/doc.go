// Package roster has the workloads of this node, each with its group once the group was found. Every capability that
// works on the groups of workloads starts from it: the capabilities share one handle and one claim for each group.
//
// A workload names its group by path, by systemd unit, or by the processes in it. Units and processes are looked up
// again every few seconds. A workload loses its group if another process is in the group, or if the kernel gave its
// process id to another process. If two workloads name one group, neither gets it, but a workload that already has it
// keeps it. While a workload has no group, its Entry says why.
//
// A reader uses the present content of an Entry, and compares it with what it used before. Another Workload means a
// changed file or pod; another Group means another group, or the same group opened again.
//
// The package also has what concerns the groups of workloads and belongs to no single capability: the groups above them
// (Above), and the use of groups that do not count in the shared pool (Apart).
package roster
