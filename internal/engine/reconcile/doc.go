// Package reconcile brings the desired settings into effect on this host and maintains them. It is the only package
// that calls Apply, except for the commands that restore original values.
//
// A plan.Desired says which value one target must have, and what it means when another program writes there. Want
// passes all desired settings at once. A target of one of the Reconciler's owners that has no desired setting any more
// gets back its value from before Berth. A Reconciler holds the groups open and makes a pass over the groups that are
// due:
//
//	observe -> plan.Diff -> plan.Order -> apply -> verify what is in effect
//
// A settled group costs one read of the value in effect for each desired setting. The Reconciler reads more only where
// that value changed. It checks every 15 seconds, because other programs write to groups as well: systemd writes its
// recorded values at every daemon-reload, runtimes and kubelets write at updates, and CPUs go offline.
//
// # Quotas that move
//
// Every write of a quota refills its group's pool, and only package burst knows when that is paid for. So a quota that
// burst moves uses a second interface (Quotas). Package burst reads the file when it checks the group anyway, asks what
// a different value means (See), and has a value written (Set). The rules and the journal are the same.
//
// # The rules
//
// Each rule exists once and applies to all writes:
//
//	kept.go        whether another program wrote a value, and whether Berth may write over it
//	conflict.go    another writer: its value is overwritten once a minute, then left for
//	               five, with an Event of HostDrift
//	overtaken.go   another program wrote between the check and the write: the next check plans
//	               again, and a second time in a row is a failure
//	follow.go      a resize: which values are the owner's new original (plan.Writers)
//	retry.go       a failure: again after 1 s, doubling to 30 s, or to 4 s when a limit is to be restored
//	restore.go     a value that is not desired any more, or a limit that the kernel refuses
//	unrestored.go  a value that could not be restored: reported once, tried again
//
// # Three ways to a file
//
// There is one journal. The container runtime writes the values that Berth answered. Record journals them before the
// answer leaves, and the next pass adopts a group that was made that way. systemd may have such answers on record. An
// agent in a pod does not reach systemd, so a rollback removes them by the remembered answers (systemd.TakeBack).
//
// systemd writes its own units, on cgroup v2, as properties until the next boot (AllowedCPUs, AllowedMemoryNodes), so
// that no daemon-reload undoes them. On v1 systemd does not touch cpusets. Berth writes all other values directly.
// systemd may be slow: an agent that also answers other programs asks systemd outside the passes (systemd.Later,
// systemd.Asking). The following pass verifies what systemd wrote.
//
// Package plan defines the order: no group gets a CPU before other groups have left it, no quota is removed before the
// CPUs are restricted, and a pod's quota is removed before its container's.
package reconcile
