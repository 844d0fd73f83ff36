// Package thread is the driver of how the scheduler treats the threads of control groups:
//
//	thread   the object is a group's path relative to the root of each hierarchy, the knob
//	         policy P or slice D: a scheduling policy such as fifo:40, or how long a thread
//	         runs before an equal thread.
//
// A value says how many threads of the group and of all groups below it have the policy or slice of the knob: none,
// some or all. Before the driver changes a thread, it journals what the thread has, by the thread's id and start time.
// The journal entry outlives this process but not the boot, as the threads do.
//
// # Undo
//
// Every thread gets back what it had. Threads that were started after Berth's write inherited the policy or slice
// across fork and exec, and are not on record. Such a thread gets what the first thread of its process had, else what
// all threads on record had in common. If they had nothing in common, it gets what the first thread of the nearest
// process above it had, else the default. A thread on record that has neither its old nor Berth's
// setting was changed by itself or by another program. It stays as it is, and the value of the target says what it has
// and had.
//
// A thread on record is restored even if it moved to another group, and even if its group is gone or another group has
// the name. Threads that a process on record started in another group get what the first thread of that process had.
// Processes that it started there are not on record and are not restored.
//
// A slice that was set reads like the default slice. A slice that equals the default counts as no slice, and restoring
// it removes the thread's own slice, so that the thread follows the default again. A thread that has slept since the
// default changed still shows the old default, which then counts as its own slice.
//
// # Threads that come later
//
// A thread that inherited nothing was moved into the group, or was forked with SCHED_RESET_ON_FORK. Follow gives it
// what the knob names, if it has the default policy or slice, and journals it like the others. A thread with another
// policy or slice got that from another program, or set it itself, and keeps it. If no thread lacked it before, none is
// on record: Follow then journals all threads of the group, and each thread with the default counts as new.
//
// # What is left alone
//
// Threads with a deadline (SCHED_DEADLINE) or with a loaded scheduler (SCHED_EXT) do not get another policy. Threads
// whose policy is neither other nor batch have no slice. How long an rr thread runs before an equal thread is one
// setting of the whole kernel. The nice value of a thread stays, and so does its flag that resets the policy on fork
// (SCHED_RESET_ON_FORK).
package thread
