// Package doctor says why a host is slow: symptom, evidence, remedy.
//
// It reads kernel files twice (Take, some seconds apart) and never writes. A Sample is
// nothing but these files, so a bundle of two samples in one text file, a recorded tree
// and the live host all take the same path. What is secret, long or of no use is cut off
// while it is read: of a thread the CPU-related fields stay, no command line or
// environment is read, and a bundle has no host name.
//
// A Check is data (code, symptom, formula, threshold, source, remedy, …) with one pure
// function that looks at two samples. Rates come from differences only; with one sample
// the checks that need them are skipped. A check that cannot be evaluated is listed with
// the reason, and so is one whose numbers another finding makes worthless (Hides).
//
// # What hides what
//
// A thread waits while the hypervisor runs others, and while a real-time thread holds
// its CPU: steal and rt-hog are looked at before waiting is. Threads that a quota holds
// back do not count in the load average: where throttled is found, a low load says
// nothing. A machine whose firmware hides its NUMA nodes has no remote memory to see.
//
// # Waiting
//
// Per thread /proc/PID/task/TID/schedstat has the time that it ran and the time that it
// was runnable and waited, also where the kernel keeps no other scheduler statistics.
// The file of the process itself is that of its first thread only.
package doctor
