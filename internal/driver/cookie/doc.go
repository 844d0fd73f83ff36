// Package cookie is the driver of the core scheduling cookie that the threads of control groups
// have:
//
//	cookie   the object is a group's path relative to the root of each hierarchy, the knob
//	         names the cookie as the kernel shows it
//
// A value says which of the group's threads, those of all groups below it included, have that
// cookie: none of them; all of them; or some, because a process joined the group that was not
// forked in it. A thread that has another cookie counts as none of the group's and is left
// alone: it runs beside its like only, and never beside a thread without a cookie.
//
// To have all of them have it, a thread of this process takes the cookie from the one that holds
// it and gives it to each that has none. To have none of them have it, a thread of this process
// that has no cookie gives each that has this one none. So what is put back is what was
// journaled, and nothing that another program did since: a thread whose cookie is not the
// journaled one any more is passed over. Threads come and go meanwhile, so both list the threads
// again until there is none left to change.
//
// A thread that left the group before is not found there, and has the cookie until it ends.
//
// Reading needs the right to trace the processes (PTRACE_MODE_READ): they have to have ids in
// this pid namespace, and CAP_SYS_PTRACE opens those of other users. Otherwise the answer is
// ErrUnseen.
package cookie
