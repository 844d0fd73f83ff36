// Package drift is the capability tune in the agent of a host without Kubernetes: it compares
// the host with the profile that is committed, once a minute and after a CPU came or went, and
// reports what changed. It writes over no value: whoever changed one may have meant it. What ends
// with the group of a unit (its policy, slice and partition) it sets again for a unit that was
// started anew, through package tuner, with the journal of profiles and its lock.
//
// The comparison is that of berth tune verify. It reads one file a CPU and interrupt, so that it
// runs beside the agent's loop. A profile that an apply or an undo works on meanwhile is not
// judged: its record says so before the first write.
//
// In a cluster the agent runs in a pod, which sees kernel settings of its own name spaces, and
// compares nothing.
package drift
