// Package tune compares a profile with a host's knobs. Make returns the plan: for every setting the present and the
// desired value, whether it can be set, and the obstacles. Read returns the same for the lines of a sysctl.d or
// tuned.conf file of another tool. Both are pure: they use the answers of package knob, and write nothing.
//
// # Order
//
// A plan lists its settings in the order of an apply. Partitions and their CPUs are first, because every change of a
// partition resets slices. Then come the masks of workqueues and interrupts, and units. The governor is before the
// preference that depends on it. All other settings follow, and slices are last.
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
// For TuneD's files, Read follows includes below the tree's root and replaces variables. It runs no functions such as
// ${f:exec:...}: a line with a function is unknown.
package tune
