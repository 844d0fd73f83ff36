// Package reconcile brings desired CPUs, memory nodes and quotas to the groups of
// this host and keeps them there.
//
// A Desired says what one group shall have; all together are the whole truth: a group
// without one gets back what it had before Berth. A Reconciler holds handle and files
// of every group open and makes a pass over them when one is due:
//
//	observe -> plan.Diff -> plan.Order -> apply -> verify what is in effect
//
// A settled group costs one read for each desired setting, of what is in effect. Only
// where that changed does the Reconciler read more. That happens every 15 seconds,
// because others write to groups as well: systemd puts back what it knows at every
// daemon-reload, runtimes and kubelets write at updates, and CPUs go offline.
//
// The Reconciler writes over another writer's value once a minute. A value that comes
// back sooner is a write conflict: it stands, with an Event of HostDrift, until the
// group was undisturbed for five minutes, or the desired value changes. That is the
// agent's rule for quotas, too. No conflict are the quotas that others write without
// regard to Berth: the kubelet's of a pod's group, which is the new original, the
// container's own limit, and the original itself, which systemd puts back.
//
// There are three ways to a file and one journal. The container runtime writes what
// Berth answered; Record journals that before the answer leaves, and the next pass
// adopts a group that was made that way. systemd writes its own units, on cgroup v2, as
// properties until the next boot (AllowedCPUs, AllowedMemoryNodes), so that no
// daemon-reload undoes them; on v1 it does not touch cpusets. All else is written
// directly. systemd may take its time: an agent that has others to answer asks it
// between two passes (Later), and the second pass verifies what systemd wrote.
//
// A group with exclusive CPUs runs without a quota where Desired says so, and so does
// the group of its pod, which has a Desired of its own. The order is that of package
// plan: no group gets a CPU before other groups have left it, no quota goes before the
// CPUs are narrow, and a pod's goes before its container's.
package reconcile
