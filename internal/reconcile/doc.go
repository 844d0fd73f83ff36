// Package reconcile brings desired settings about on this host and keeps them there. It is
// the only package that calls Apply, but for the commands that put back.
//
// A plan.Desired says what one target shall have, and what it means that another program
// wrote there. All that are desired together are the whole truth (Want): a target of one of
// the Reconciler's owners without one gets back what it had before Berth. A Reconciler holds
// the groups open and makes a pass over them when one is due:
//
//	observe -> plan.Diff -> plan.Order -> apply -> verify what is in effect
//
// A settled group costs one read for each desired setting, of what is in effect. Only
// where that changed does the Reconciler read more. That happens every 15 seconds,
// because others write to groups as well: systemd puts back what it knows at every
// daemon-reload, runtimes and kubelets write at updates, and CPUs go offline.
//
// # Quotas that move
//
// Every write of a quota refills its group's pool, and only burst knows when that is paid
// for. So a quota that burst moves goes by a second door (Quotas): burst reads the file
// when it looks at the group anyway, asks what it means that another value stands (See),
// and has a value written (Set). The rules and the journal are the same.
//
// # The rules
//
// Each stands once, for all that is written:
//
//	conflict.go    another writer: its value is written over once a minute, then left for
//	               five, with an Event of HostDrift
//	follow.go      a resize: which values are the owner's new original (plan.Writers)
//	retry.go       a failure: again after 1 s, doubling to 30 s, on the way back to a limit to 4 s
//	unrestored.go  what could not be put back: reported once, tried again
//	lowest.go      a limit that the kernel refuses: the lowest quota that it takes
//
// # Three ways to a file
//
// There is one journal. The container runtime writes what Berth answered; Record journals
// that before the answer leaves, and the next pass adopts a group that was made that way.
// What systemd has on record of such answers a rollback takes back by what was answered, since an agent in a pod
// does not reach systemd (TakeBack).
// systemd writes its own units, on cgroup v2, as properties until the next boot
// (AllowedCPUs, AllowedMemoryNodes), so that no daemon-reload undoes them; on v1 it does not
// touch cpusets. All else is written directly. systemd may take its time: an agent that has
// others to answer asks it beside the passes (Later, Asking), and the pass after that verifies
// what systemd wrote.
//
// The order is that of package plan: no group gets a CPU before other groups have left it,
// no quota goes before the CPUs are narrow, and a pod's goes before its container's.
package reconcile
