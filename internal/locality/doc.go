// Package locality decides which pages of a group move to which NUMA node, when, and how
// that is reported. It is pure: what was measured and what time it is come in as values.
//
// Local are the memory nodes of the CPUs on which a group runs (target.go). The ratio is
// the share of its movable memory there (memory.go). A policy (policy.go) says whether a
// pass is due (phase.go); a pass moves pages from remote nodes to local ones only, within
// the room that is left there (room.go), at a pace that leaves the group its speed
// (pace.go), and says why a page stayed (left.go). The texts of events are text.go.
package locality
