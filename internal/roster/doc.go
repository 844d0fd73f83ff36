// Package roster has the workloads of this node, each with its group once that was found.
// It is what every capability that works on the groups of workloads starts from: the
// capabilities share one handle for each group, and one claim to it.
//
// A workload names its group by path, by systemd unit, or by the processes in it. The last
// two are looked up again every few seconds: another process in the group takes the group
// away from the workload, and so does a process id that the kernel gave to another process.
// Two workloads that name one group get neither of them. While a workload has no group, its
// Entry says why.
//
// A reader goes by what an Entry has now, and compares it with what it took over before:
// another Workload is a changed file or pod, another Group another group or the same one
// opened anew.
//
// What concerns the groups of workloads and is no capability's own is here as well: the groups
// above them (Above), and what those use that do not count in the shared pool (Apart).
package roster
