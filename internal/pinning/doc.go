// Package pinning brings wishes for CPUs and memory nodes to the groups of this
// host and keeps them there.
//
// A Wish says what one group should have; all wishes together are the whole truth:
// what has no wish any more gets back what it had before Berth. A Keeper holds
// handle and files of every group open and makes a pass over them when one is due:
//
//	observe -> plan.Diff -> plan.Order -> apply -> verify what is in effect
//
// A group that is settled costs one read for each thing that is wished of it, of
// what is in effect. Only where that is not as it was left is more read. That
// happens every 15 seconds, because others write to groups as well: systemd puts
// back what it knows at every daemon-reload, runtimes and kubelets write at
// updates, and CPUs go offline.
//
// Somebody else's value is written over once a minute. One that comes back sooner
// belongs to somebody who means it: it is left to him, as News of HostDrift, until
// the group has stood undisturbed for five minutes, or the wish changes. That is the
// agent's rule for quotas, too. No duel are the quotas that others write without
// meaning Berth: the kubelet's of a pod's group, which is the new original, the
// container's own limit, and the original itself, which systemd puts back.
//
// There are three ways to a file and one journal. The container runtime writes what
// it was answered; Record journals that before the answer leaves, and a group that
// was made that way is adopted at the next pass. systemd writes its own units, on
// cgroup v2, as properties until the next boot (AllowedCPUs, AllowedMemoryNodes), so
// that no daemon-reload undoes them; on v1 it does not touch cpusets. All else is
// written directly. systemd may take its time: an agent that has others to answer asks
// it between two passes (Later), and the second one verifies what came of it.
//
// A group with CPUs of its own runs without a quota where the wish says so, and so
// does the group of its pod, which is a wish of its own. The order is that of
// package plan: nobody comes before others have left, no quota goes before the CPUs
// are narrow, and a pod's goes before its container's.
package pinning
