// Package thread is the driver of how the scheduler treats the threads of control groups:
//
//	thread   the object is a group's path relative to the root of each hierarchy, the knob
//	         policy P or slice D: a scheduling policy such as fifo:40, or how long a thread
//	         runs before an equal one
//
// A value says which of the group's threads, those of all groups below it included, have what the
// knob names: none of them, some, or all. What each of them had before is noted in the journal, by
// its id and its start, before it is given anything. It outlives this process and not the boot, as
// the threads do.
//
// # Undo
//
// A thread gets back what it had. fork and exec hand on what a thread has, so that the threads
// that were started meanwhile have it too, and are not on record: such a one gets what the first
// thread of its process had, else what all that are on record had, else the default. A thread on
// record that has neither was given another one meanwhile, by itself or by another program: it
// keeps that, and the value of the target then says what it has and had.
//
// A thread on record gets it wherever it is by then: in another group, and also where its own is gone or
// another one has the name. Threads that a process on record started in another group get what its first
// thread had; processes that it started there are on no record, and keep what they have.
//
// A slice that was set reads like the default one. One that equals the default counts as none, and
// none is given back, so that the thread follows the default again. A thread that has slept since
// the default changed still shows the old one, which then counts as its own.
//
// # What is left alone
//
// Threads with a deadline (SCHED_DEADLINE) and of a loaded scheduler (SCHED_EXT) keep their policy,
// and threads that are neither other nor batch have no slice. How long a thread of rr runs before
// an equal one is a setting of the whole kernel. The nice value of a thread stays, and whether what
// it forks begins anew (SCHED_RESET_ON_FORK).
package thread
