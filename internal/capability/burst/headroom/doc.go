// Package headroom is the node guard. It measures how busy the CPUs are that the workloads of a node share, and divides
// the remainder among the workloads that may use more than their limits.
//
// A Pool is these CPUs with their mean use (Mean). Below the threshold each workload has all that its policy allows.
// Above it, Share divides what is left by weighted max-min fairness, with the limits as weights, and Guard keeps each
// share steady while the use moves. Nothing here reads the host: the caller samples how busy it is.
package headroom
