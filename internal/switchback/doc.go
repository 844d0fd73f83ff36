// Package switchback runs a command with a change and without it, until package evidence says
// whether the change helps.
//
// # Pairs
//
// A pair is two runs, one right after the other, one with the change. A coin says which comes
// first; its seed is in the record before the first run. The change is brought about before its
// run and taken back after it, and before each run of either kind there is the same pause, so
// that what the switch itself disturbs is over.
//
// # Void pairs
//
// A pair in which another machine on the hypervisor took more than 1 % of either run's CPU time,
// and at least two ticks of 10 ms, counts for nothing. The rule is the same for both runs: to leave out bad runs of one kind only
// would make up a difference.
//
// # What is left
//
// What the command leaves running in its process group gets SIGKILL when the run is over, and the
// next run begins when it is gone: it would take CPU time in a run of the other kind. A process
// that left the group goes on.
//
// Whatever ends a trial, the change is taken back first: an error, the end of the context, the
// time limit. Of a command that is ended this way its whole process group gets SIGTERM, and
// SIGKILL when it stays. When this process is killed, the kernel kills the command itself, not what
// it started; the change is then to be taken back by whoever watches this process.
package switchback
