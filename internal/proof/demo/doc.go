// Package demo runs each of Berth's capabilities on this host, end to end, with real workloads, and proves that the host
// is as it was.
//
// A part is one capability: it has a table with an arm for each state, or a reason why this host cannot show it. A part
// makes its own groups with programs of this program, and starts Berth's real agent from real workload files; tune uses
// the user's commands. Then the part kills the agent, and the user's rollback command restores everything. The
// demonstration reads every touched file before, meanwhile and after that.
//
// In the part burst, a request server runs under an open-loop load with bursts: without a limit, with a limit, and with
// the same limit and the agent. The three arms take turns in short slices with the same arrivals, so that other activity
// on the machine meets all arms.
//
// The demonstration makes its groups at the root of the cgroup hierarchies, or, where systemd runs the host and owns
// that root, below a transient scope that systemd delegates.
package demo
