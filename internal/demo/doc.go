// Package demo runs Berth's main job on this host, end to end, with real
// workloads, and proves that the host is as it was.
//
// A request server of this program's own runs in groups that it makes, under
// an open-loop load with bursts: without a limit, with a limit, and with the
// same limit and Berth's real agent, started from a real workload file. The
// three take turns in short slices with the same arrivals, so that whatever
// else the machine does meets all of them. Then everything is rolled back by
// the same command a user has, and every file that was touched is read again
// and compared with what it held before.
//
// Groups are made at the root of the cgroup hierarchies, or, where systemd
// runs the host and owns that root, below a transient scope delegated by it.
package demo
