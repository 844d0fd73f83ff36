// Package headroom is the node guard: how busy the CPUs that the workloads of a node share
// are, and what of the rest each of those has that may use more than its limit.
//
// A Pool is these CPUs with their mean use (Mean). While it is below the threshold each workload
// has all that its policy allows; above it, Share divides what is left by weighted max-min
// fairness, with the limits as weights, and Guard keeps each share steady while the use
// moves. Nothing here reads the host: the caller samples how busy it is.
package headroom
