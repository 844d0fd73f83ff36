// Package mover moves the pages of groups between NUMA nodes, as package locality decided:
// orders come in, reports go out. It writes no file and undoes nothing.
//
// One goroutine does it, so that a program makes one call at a time. Orders take turns
// of 1 GiB. A pass over a group lists its processes until none is new, and walks each one
// from its first mapping to its last (walk.go): a stretch of it is looked at, what is on
// other nodes is sorted by node, and is moved (move.go) before the walk goes on. Huge pages
// go first, by their first address, because they move whole; what is still remote follows
// page by page. Shared memory that several processes of the group have mapped moves, if a scan
// of all processes finds no other one that has (shared.go). Each call is preceded by a look at the room of the target, at the signs of
// pressure and at the identity of the process, which is looked at after the call again.
package mover
