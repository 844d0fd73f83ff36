// Package observed has what is observed of a node, as values. The inventory makes them from what the cluster, the
// container runtime and the kernel report, and the capabilities decide by them: neither needs the other.
package observed
