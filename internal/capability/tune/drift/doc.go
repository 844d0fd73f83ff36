// Package drift is the capability tune in the agent of a host without Kubernetes. It compares the host with the
// committed profile, once a minute and after a CPU came or went, and reports changes. It overwrites no value: the
// program that changed the value may have meant it. The policy, slice and partition of a unit end with the unit's
// group. Package drift sets them again for a restarted unit, through package tuner, with the journal of profiles and
// its lock. It also gives policy and slice to threads of the unit that came since and inherited neither.
//
// The comparison is that of berth tune verify. It reads one file for each CPU and interrupt, so it runs beside the
// agent's loop. It does not judge a profile while an apply or an undo works on it: the record says so before the first
// write.
//
// In a cluster the agent only compares and reports: tune runs on the host. Its pod does not show each setting of the
// host. Settings of a namespace that the pod does not share, of file systems that it does not have, and of threads
// without an id in the pod are reported as not seen, with the reason, and never as drift. What the kernel shows of the
// agent's own namespaces and mounts decides it, so other manifests may show more or less.
package drift
