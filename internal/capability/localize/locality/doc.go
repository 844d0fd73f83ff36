// Package locality decides which pages of a group move to which NUMA node, when, and what the report says. It is pure:
// measurements and times are arguments.
//
// The local nodes are the memory nodes of the CPUs on which a group runs (target.go). The ratio is the local share of
// the group's movable memory (memory.go). A policy (policy.go) decides whether a pass is due (phase.go). A pass moves
// pages from remote nodes to local nodes only, within the room there (room.go). Its pace leaves the group its speed
// (pace.go), and each page that stayed has a reason (left.go). The texts of events are in text.go.
package locality
