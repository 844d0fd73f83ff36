// Package burst is the part of the capability burst that does not need the host: the state of the law for each group,
// and the report to users. The law itself, on values, is package credit. Package quota applies it to the groups of a
// node.
//
// A Group has the state of the law for one group between samples: facts, account, decision, guard, the time between
// samples (cadence), and an announced resize. A Pod computes what the group of a pod must let through for its
// containers, and charges the use of containers without a limit. An Own is any group that follows another group in this
// way. These types neither read nor write the host: the caller fills in the facts, and writes the decision.
//
// Credit bounds one group. Package headroom bounds all groups of a node together by what the node has left (Divide).
//
// A Status is the report of a group to users. Info has the keys, the metrics and the configuration of the capability.
package burst
