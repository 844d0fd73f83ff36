// Package demo runs Berth's main job on this host, end to end, with real workloads, and proves that the host is as it
// was.
//
// A request server of this program runs in groups that the demonstration makes, under an open-loop load with bursts:
// without a limit, with a limit, and with the same limit and Berth's real agent, started from a real workload file. The
// three arms take turns in short slices with the same arrivals, so that other activity on the machine meets all arms.
// Then the user's rollback command restores everything. The demonstration reads every touched file again and compares
// the contents.
//
// The demonstration makes its groups at the root of the cgroup hierarchies, or, where systemd runs the host and owns
// that root, below a transient scope that systemd delegates.
package demo
