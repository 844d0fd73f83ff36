// Package cookie is the driver of the core scheduling cookie of the threads of control groups:
//
//	cookie   the object is a group's path relative to the root of each hierarchy, the knob
//	         names the cookie as the kernel shows it.
//
// A value says how many threads of the group and of all groups below it have that cookie: none, all, or some. It is
// some after a process that was not forked in the group joined it. The driver ignores threads that have another cookie:
// such a thread shares a core only with threads of that cookie, and never with a thread that has none.
//
// To give the cookie, a thread of this process copies it from its holder and gives it to each thread that has no
// cookie. To remove the cookie, a thread of this process without a cookie clears it from each thread that has this
// cookie. Only the journaled cookie is removed: a thread that another program gave another cookie is skipped. Threads
// come and go during the write, so both directions list the threads again until no thread is left to change.
//
// A thread that left the group earlier is not found, and has the cookie until it ends.
//
// Reading a cookie needs the right to trace the process (PTRACE_MODE_READ). The process must have an id in this pid
// namespace, and CAP_SYS_PTRACE is needed for processes of other users. Otherwise the error is ErrUnseen.
package cookie
