// Package switchback runs a command with and without a change, until package evidence decides whether the change helps.
//
// # Pairs
//
// A pair is two runs, one right after the other, one with the change. A coin decides the order; its seed is in the
// record before the first run. The change is applied before its run and rolled back after it. Each run of either kind
// begins after the same pause, so that the disturbance by the switch itself is over.
//
// # Void pairs
//
// A pair is void when another machine on the hypervisor took more than 1 % of either run's CPU time, and at least two
// ticks of 10 ms. The rule is the same for both runs: to leave out bad runs of one kind only would create a difference.
//
// # Processes left behind
//
// Processes that the command leaves in its process group get SIGKILL when the run is over, and the next run begins when
// they are gone: they would use CPU time in a run of the other kind. A process that left the group continues.
//
// The change is rolled back before Compare returns, whatever ends the trial: an error, the end of the context, the time
// limit. If a command is ended this way, its whole process group gets SIGTERM, and SIGKILL if it does not end. When
// this process is killed, the kernel kills the command itself, but not its children. The watcher of this process must
// then roll the change back.
package switchback
