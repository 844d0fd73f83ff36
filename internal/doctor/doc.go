// Package doctor says why a host is slow: symptom, evidence, remedy.
//
// It reads kernel files twice (Take, some seconds apart) and never writes. A Sample consists only of these files, so a
// bundle of two samples in one text file, a recorded tree and the live host all take the same path. Secret, long or
// useless text is removed while it is read. For a thread only the CPU-related fields remain, no command line or
// environment is read, and a bundle has no host name.
//
// A Check is data (code, symptom, formula, threshold, source, remedy, …) with one pure function of two samples. Rates
// come only from differences; with one sample the checks that need rates are skipped. A check that cannot be evaluated
// is listed with the reason, and so is a check whose numbers another finding makes meaningless (Hides).
//
// # What hides what
//
// A thread waits while the hypervisor runs other machines, and while a real-time thread has its CPU: steal and rt-hog
// are therefore evaluated before waiting. Threads that a quota holds back are not part of the load average: if
// throttled is found, a low load says nothing. A machine whose firmware hides its NUMA nodes shows no remote memory.
//
// # Waiting
//
// For each thread, /proc/PID/task/TID/schedstat has the time that it ran and the time that it was runnable and waited,
// even if the kernel has no other scheduler statistics. The process's own file covers only its first thread.
package doctor
