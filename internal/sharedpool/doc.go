// Package sharedpool is what the containers without exclusive CPUs have of a node: the shared
// pool, and its two sides while offline work has cores of its own. It is pure, and knows sets of
// CPUs only; package place gives it the pods' part, and gives out what it says.
//
// The pool is what is online, neither reserved nor isolated, nor exclusive to a pod, siblings
// that stay empty included. Offline work gets whole cores of it, as many as package isolate
// decided: a pinned pod takes cores of both sides at once, so that offline work then has as many
// fewer, and others only where it would have less than it is guaranteed. One core always stays
// with online work, and so does what a container of it is bound to. Without such cores offline work may leave a reserve free,
// where only the others run.
package sharedpool
