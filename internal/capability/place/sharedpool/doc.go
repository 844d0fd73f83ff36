// Package sharedpool decides which CPUs of a node the containers without exclusive CPUs have: the shared pool, and its
// two sides while offline work has its own cores. It is pure, and knows only sets of CPUs; package place passes it the
// pods' CPUs, and gives out the result.
//
// The pool has the online CPUs that are neither reserved nor isolated, nor exclusive to a pod, including siblings that
// stay empty. Offline work gets whole cores of the pool, as many as package isolate decided. A pinned pod takes cores
// from both sides: offline work then has that many fewer. Other containers lose cores to offline work only where it
// would have less than its guarantee. One core always stays with online work, and so do the CPUs to which one of its
// containers is bound. Without its own cores, offline work may leave a reserve free, where only other containers run.
package sharedpool
