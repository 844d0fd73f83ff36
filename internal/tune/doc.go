// Package tune joins a profile with what a host has of its knobs. Make gives the plan: for
// every setting the value now and then, whether it can be set, and what is in the way; Read
// gives the same for the lines of a sysctl.d or tuned.conf file of another tool. Both are
// pure: they look at the answers of package knob, and write nothing.
//
// # Order
//
// A plan lists its settings in the order in which they are applied: partitions first, with the
// CPUs that they are made of, because every change of one resets slices, then the workqueues'
// and the interrupts' masks, units, the governor before the preference that it decides about,
// all else, and slices last.
//
// # Import
//
// Every line of the file gets one verdict:
//
//	kept        a sysctl that this kernel has: the same line
//	translated  the value has another place today: the knob that sets it, optional where this
//	            machine lacks the hardware for it
//	dead        nothing on this kernel takes it: since when, and what to do instead
//	harmful     it does something else than it is meant for: left out, with the reason
//	unknown     Berth does not know what it means, or an apply would refuse it: left out, never
//	            dropped silently
//
// Of TuneD's files the includes are followed below the tree's root, variables are replaced,
// and functions such as ${f:exec:...} are not run: a line with one is unknown.
package tune
