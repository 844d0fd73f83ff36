// Package mover moves the pages of groups between NUMA nodes, as package locality decided: orders are its input,
// reports its output. It writes no file and undoes nothing.
//
// One goroutine moves all pages, so that the program makes one call at a time. Orders take turns of 1 GiB. A pass over
// a group lists its processes until none is new, and walks each process from its first mapping to its last (walk.go).
// The walk examines a stretch, sorts the pages on other nodes by node, and moves them (move.go) before it continues. It
// asks the kernel for the node of each page, except for a sample where numa_maps shows that the rest of a mapping is on
// one node. It does not look for pages where numa_maps shows that a mapping is full of unshared pages (census in
// walk.go).
// Huge pages move first, by their first address, because they move whole. The pages that are still remote follow one by
// one. Shared memory that several processes of the group have mapped moves only if a scan of all processes finds no
// outside process that maps it (shared.go). Before each call the mover checks the room of the target, the signs of
// pressure and the identity of the process, and the identity again after the call.
package mover
